//! A bound on the payload that a directory holds, counted as it came and not as it is stored.
//!
//! The capacity bounds what the files take on disk; where payloads are compressed, more lies in them than that. With a cap,
//! objects leave by the policy before one comes that would exceed it. What is under way counts as if it were held, so that
//! appends side by side cannot exceed it together.

use super::{SsdTier, clean::Saved, format::file::FIRST_BATCH};
use ziggurat_base::{ByteCount, Code, Error, Result};

/// The least cap.
pub const LOGICAL_CAP_MIN: ByteCount = ByteCount(2 << 20);

/// Checks a cap that somebody gave.
pub(super) fn check(cap: Option<ByteCount>) -> Result<()> {
    match cap.filter(|cap| *cap < LOGICAL_CAP_MIN) {
        Some(cap) => Err(Error::new(
            Code::InvalidParams,
            format!(
                "a logical cap of {cap} on an SSD directory is too small: give it at least {LOGICAL_CAP_MIN}, or none"
            ),
        )),
        None => Ok(()),
    }
}

/// Payload on its way into the directory, as long as this lives.
pub(super) struct Incoming<'a> {
    tier: &'a SsdTier,
    bytes: u64,
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        self.tier.lock().incoming -= self.bytes;
    }
}

impl SsdTier {
    /// The cap as a number; without one nothing reaches it.
    pub(super) fn logical_cap(&self) -> u64 {
        self.options.logical_cap.map_or(u64::MAX, |cap| cap.0)
    }

    fn try_incoming(&self, bytes: u64) -> Option<Incoming<'_>> {
        let mut state = self.lock();
        let whole = state.holdings.logical_bytes() + state.incoming;
        if whole.saturating_add(bytes) > self.logical_cap() {
            return None;
        }
        state.incoming += bytes;
        drop(state);
        Some(Incoming { tier: self, bytes })
    }

    /// Lets objects go until `bytes` of payload more are within the cap, for a batch of `paid` bytes.
    ///
    /// # Errors
    /// `UnableOffloading` when nothing may go now, and errors of the disk.
    pub(super) async fn admit_payload(&self, bytes: u64, paid: u64) -> Result<Incoming<'_>> {
        if let Some(incoming) = self.try_incoming(bytes) {
            return Ok(incoming);
        }
        let _cleaning = self.cleaning.lock().await;
        let files = self.lock().files.len();
        // What is used is kept over the first round through the files; by then something must go.
        for round in 0..=2 * files + 2 {
            if let Some(incoming) = self.try_incoming(bytes) {
                return Ok(incoming);
            }
            let Some(file) = self.oldest_or_open() else {
                break;
            };
            let saved = match round < files {
                true => Saved::Used,
                false => Saved::Pinned,
            };
            self.clean(file, saved, paid).await?;
        }
        self.try_incoming(bytes).ok_or_else(|| {
            let cap = ByteCount(self.logical_cap());
            Error::new(
                Code::UnableOffloading,
                format!(
                    "the SSD directory holds its {cap} of payload and nothing in it may go now"
                ),
            )
        })
    }

    /// Comes back under a cap that was lowered since the directory was filled.
    pub(super) async fn keep_logical_cap(&self) -> Result<()> {
        if self.lock().holdings.logical_bytes() <= self.logical_cap() {
            return Ok(());
        }
        match self.admit_payload(0, 0).await {
            Err(error) if error.code() != Code::UnableOffloading => Err(error),
            _ => Ok(()),
        }
    }

    /// The oldest file that may go. When only the one that takes batches is left, it takes no more.
    fn oldest_or_open(&self) -> Option<u32> {
        let oldest = || self.lock_choice(|_, files| files.first().map(|file| file.0));
        oldest().or_else(|| {
            {
                let mut state = self.lock();
                let open = state.open.take_if(|open| open.end > FIRST_BATCH)?;
                state.retired.push_back(open.file);
            }
            oldest()
        })
    }
}
