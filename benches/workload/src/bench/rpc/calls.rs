//! The calls themselves: what is prepared outside of their time, and what must come back.

use super::Call;
use crate::bench::key;
use ziggurat_base::{Code, Error, Key, Result, hash::Dice};
use ziggurat_engine::command::{BATCH_MAX, Keys, Recency};
use ziggurat_store::{Force, PutOptions, PutOutcome, PutRequest, Store};

/// Objects that are there from the start.
const LOADED: u64 = 200_000;

/// Kinds of keys.
const THERE: u64 = 1;
const MISSING: u64 = 2;
const FRESH: u64 = 3;

/// The one value.
const VALUE: &[&[u8]] = &[b"1"];

pub(super) struct Calls<'a> {
    store: &'a Store,
    dice: Dice,
    /// Objects put so far, and how many of them were removed.
    put: u64,
    removed: u64,
    names: Vec<[u8; 32]>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self {
            store,
            dice: Dice::new(1),
            put: 0,
            removed: 0,
            names: Vec::new(),
        }
    }

    /// Puts what is to be found.
    pub(super) async fn load(&mut self) -> Result<()> {
        for start in (0..LOADED).step_by(BATCH_MAX) {
            let end = LOADED.min(start + BATCH_MAX as u64);
            self.names = (start..end).map(|number| key(THERE, number)).collect();
            self.put_all().await?;
        }
        Ok(())
    }

    /// Makes the keys of the next call.
    pub(super) fn prepare(&mut self, call: Call, batch: usize) {
        let Self {
            dice, put, removed, ..
        } = self;
        let mut random = |kind| key(kind, dice.below(LOADED));
        let next = |counter: &mut u64| {
            *counter += 1;
            key(FRESH, *counter)
        };
        let one = |_| match call {
            Call::ExistHit | Call::Locate => random(THERE),
            Call::ExistMiss => random(MISSING),
            Call::Put => next(put),
            Call::Remove => next(removed),
        };
        self.names = (0..batch).map(one).collect();
    }

    /// Makes the call; says whether there was anything left to call for.
    pub(super) async fn make(&mut self, call: Call) -> Result<bool> {
        match call {
            Call::ExistHit => self.exist(true).await?,
            Call::ExistMiss => self.exist(false).await?,
            Call::Locate => self.locate().await?,
            Call::Put => self.put_all().await?,
            Call::Remove if self.removed > self.put => return Ok(false),
            Call::Remove => self.remove().await?,
        }
        Ok(true)
    }

    fn keys(&self) -> Vec<&[u8]> {
        self.names.iter().map(|name| &name[..]).collect()
    }

    async fn exist(&self, wanted: bool) -> Result<()> {
        for found in self.store.exist_many(&self.keys()).await {
            if found? != wanted {
                return Err(Error::new(
                    Code::Internal,
                    "exist has found what it should not",
                ));
            }
        }
        Ok(())
    }

    async fn locate(&self) -> Result<()> {
        let keys = self.names.iter().map(|name| Key::new(name));
        let keys: Vec<_> = keys.collect::<Result<_>>()?;
        let keys = Keys {
            tenant: self.store.tenant(),
            keys: &keys,
        };
        let metadata = &self.store.ports().metadata;
        let mut holds = Vec::with_capacity(keys.keys.len());
        for found in metadata.locate(keys, Recency::Touch).await? {
            let grant = found?.ok_or_else(|| Error::from(Code::ObjectNotFound))?;
            holds.push(grant.hold);
        }
        metadata.give_back(&holds);
        Ok(())
    }

    async fn put_all(&self) -> Result<()> {
        let requests = self.names.iter().map(|name| PutRequest::new(name, VALUE));
        let requests: Vec<_> = requests.collect();
        for outcome in self.store.put_many(&requests, &PutOptions::default()).await {
            if outcome? == PutOutcome::Existed {
                return Err(Code::ObjectAlreadyExists.into());
            }
        }
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        for removed in self.store.remove_many(&self.keys(), Force::Yes).await {
            removed?;
        }
        Ok(())
    }
}
