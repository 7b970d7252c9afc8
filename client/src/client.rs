//! The calls of an application.

use crate::{
    options::{PutOptions, PutRequest},
    rooms::{Fresh, Given},
};
use ziggurat_base::{Code, Error, Key, ObjectKey, Result, TenantId};
use ziggurat_engine::{
    command::{
        BATCH_MAX, Force, Keys, ObjectStat, Prefetch, Prefetched, Priority, Recency, ScanAction,
    },
    journey::{self, Get, Patience, Put, PutOutcome},
    port::Ports,
};

/// Objects that a removal by pattern took, and those that it had to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Gone.
    pub removed: u64,
    /// Still there because a reader holds them.
    pub leased: u64,
}

/// A store as its users see it: objects of one tenant by key.
///
/// Every batch answers by position; an invalid key is the error of its own item. A miss is `Ok(None)`, an empty value
/// is `Ok(Some(_))` with length 0, and `Err` means that something failed.
#[derive(Clone, Debug)]
pub struct Client {
    ports: Ports,
    tenant: TenantId,
    patience: Patience,
}

/// Keys that passed the door, and where their answers go.
struct Checked<'a> {
    keys: Vec<Key<'a>>,
    positions: Vec<usize>,
}

impl<'a> Checked<'a> {
    /// Checks keys; answers the bad ones at once.
    fn new<T>(
        keys: &[&'a [u8]],
        answers: &mut Vec<Result<T>>,
        pending: impl Fn() -> Result<T>,
    ) -> Self {
        let mut checked = Self {
            keys: Vec::with_capacity(keys.len()),
            positions: Vec::with_capacity(keys.len()),
        };
        for (position, key) in keys.iter().enumerate() {
            match Key::new(key) {
                Ok(key) => {
                    checked.keys.push(key);
                    checked.positions.push(position);
                    answers.push(pending());
                }
                Err(error) => answers.push(Err(error)),
            }
        }
        checked
    }
}

fn unanswered<T>() -> Result<T> {
    Err(Error::new(Code::Internal, "the batch has no answer here"))
}

/// The answer of a batch of one.
fn only<T>(mut answers: Vec<Result<T>>) -> Result<T> {
    answers.pop().unwrap_or_else(unanswered)
}

impl Client {
    /// A client over ports.
    #[must_use]
    pub fn new(ports: Ports, tenant: TenantId, patience: Patience) -> Self {
        Self {
            ports,
            tenant,
            patience,
        }
    }

    /// What it runs over.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Stores a value. A key that is readable keeps its value: then the answer is [`PutOutcome::Existed`].
    ///
    /// # Errors
    /// `ObjectAlreadyExists` while another writer is writing the key, `NoAvailableHandle` without room, and whatever
    /// kept every replica from being written.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<PutOutcome> {
        self.put_parts(key, &[value.as_ref()], &PutOptions::default())
            .await
    }

    /// Stores a value that lies in parts.
    ///
    /// # Errors
    /// As [`Client::put`].
    pub async fn put_parts(
        &self,
        key: impl AsRef<[u8]>,
        parts: &[&[u8]],
        options: &PutOptions,
    ) -> Result<PutOutcome> {
        only(
            self.put_many(&[PutRequest::new(key.as_ref(), parts)], options)
                .await,
        )
    }

    /// Stores a batch. With the same key twice, the first one to be readable wins.
    pub async fn put_many(
        &self,
        requests: &[PutRequest<'_>],
        options: &PutOptions,
    ) -> Vec<Result<PutOutcome>> {
        let mut answers = Vec::with_capacity(requests.len());
        let mut puts = Vec::with_capacity(requests.len());
        let mut positions = Vec::with_capacity(requests.len());
        for (position, request) in requests.iter().enumerate() {
            let checked = Key::new(request.key).and_then(|key| Ok((key, request.tags()?)));
            answers.push(match checked {
                Ok((key, tags)) => {
                    puts.push(Put {
                        key,
                        parts: request.parts,
                        tags,
                    });
                    positions.push(position);
                    unanswered()
                }
                Err(error) => Err(error),
            });
        }
        let done = journey::put::put(
            &self.ports,
            &self.patience,
            self.tenant,
            &puts,
            &options.wish,
        )
        .await;
        for (position, answer) in positions.into_iter().zip(done) {
            answers[position] = answer;
        }
        answers
    }

    /// Reads a value; `None` is a miss.
    ///
    /// # Errors
    /// When the object is there but no replica could be read and proved.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        only(self.get_many(&[key.as_ref()]).await)
    }

    /// Reads a batch. The same key may be there several times.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Option<Vec<u8>>>> {
        let mut answers = Vec::with_capacity(keys.len());
        let checked = Checked::new(keys, &mut answers, || Ok(None));
        let gets: Vec<_> = checked.keys.iter().map(|key| Get::whole(*key)).collect();
        let mut fresh = Fresh::new(gets.len());
        let done = self.run(&gets, Recency::Touch, &mut fresh).await;
        for ((position, answer), value) in checked.positions.into_iter().zip(done).zip(fresh.values)
        {
            answers[position] = answer.map(|found| found.map(|_| value));
        }
        answers
    }

    /// Reads `len` bytes from `offset` on.
    ///
    /// # Errors
    /// `InvalidRead` when the range is not inside the object, else as [`Client::get`].
    pub async fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len: u64,
    ) -> Result<Option<Vec<u8>>> {
        let get = Get {
            key: Key::new(key.as_ref())?,
            offset,
            len: Some(len),
        };
        let mut fresh = Fresh::new(1);
        let found = only(self.run(&[get], Recency::Touch, &mut fresh).await)?;
        Ok(found.and(fresh.values.pop()))
    }

    /// Reads a value into the caller's memory and says how many bytes it has; `None` is a miss.
    ///
    /// # Errors
    /// `BufferOverflow` when the buffer is too small, else as [`Client::get`]. Then the buffer's content is undefined.
    pub async fn get_into(&self, key: impl AsRef<[u8]>, buffer: &mut [u8]) -> Result<Option<u64>> {
        only(
            self.get_many_into(&[key.as_ref()], &mut [buffer], Recency::Touch)
                .await,
        )
    }

    /// Reads a batch into the caller's memory, one buffer for each key.
    pub async fn get_many_into(
        &self,
        keys: &[&[u8]],
        buffers: &mut [&mut [u8]],
        recency: Recency,
    ) -> Vec<Result<Option<u64>>> {
        if keys.len() != buffers.len() {
            let what = format!(
                "{} keys and {} buffers: give one buffer for each key",
                keys.len(),
                buffers.len()
            );
            return keys
                .iter()
                .map(|_| Err(Error::new(Code::InvalidParams, what.clone())))
                .collect();
        }
        let mut answers = Vec::with_capacity(keys.len());
        let checked = Checked::new(keys, &mut answers, || Ok(None));
        let gets: Vec<_> = checked.keys.iter().map(|key| Get::whole(*key)).collect();
        let mut valid: Vec<&mut [u8]> = Vec::with_capacity(gets.len());
        let mut positions = checked.positions.iter().peekable();
        for (position, buffer) in buffers.iter_mut().enumerate() {
            if positions.next_if(|next| **next == position).is_some() {
                valid.push(buffer);
            }
        }
        let done = self
            .run(
                &gets,
                recency,
                &mut Given {
                    buffers: &mut valid,
                },
            )
            .await;
        for (position, answer) in checked.positions.into_iter().zip(done) {
            answers[position] = answer;
        }
        answers
    }

    /// Reads a range into the caller's memory, which must be as long as the range.
    ///
    /// # Errors
    /// As [`Client::get_range`].
    pub async fn get_range_into(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Option<u64>> {
        let get = Get {
            key: Key::new(key.as_ref())?,
            offset,
            len: Some(buffer.len() as u64),
        };
        only(
            self.run(
                &[get],
                Recency::Touch,
                &mut Given {
                    buffers: &mut [buffer],
                },
            )
            .await,
        )
    }

    async fn run(
        &self,
        gets: &[Get<'_>],
        recency: Recency,
        into: &mut dyn journey::GetInto,
    ) -> Vec<Result<Option<u64>>> {
        journey::get::get(
            &self.ports,
            &self.patience,
            self.tenant,
            gets,
            recency,
            into,
        )
        .await
    }

    /// Whether an object is readable; it stays so for a lease span when somebody has read it lately.
    ///
    /// # Errors
    /// Only when nobody could be asked.
    pub async fn exist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        only(self.exist_many(&[key.as_ref()]).await)
    }

    /// Whether objects are readable.
    pub async fn exist_many(&self, keys: &[&[u8]]) -> Vec<Result<bool>> {
        let mut answers = Vec::with_capacity(keys.len());
        let checked = Checked::new(keys, &mut answers, unanswered);
        for (keys, positions) in checked
            .keys
            .chunks(BATCH_MAX)
            .zip(checked.positions.chunks(BATCH_MAX))
        {
            spread(
                &mut answers,
                positions,
                self.ports.metadata.exist(self.keys(keys)).await,
            );
        }
        answers
    }

    /// Bytes of an object's payload; `None` is a miss. Takes no guard.
    ///
    /// # Errors
    /// Only when nobody could be asked.
    pub async fn size(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        Ok(self.stat(key).await?.map(|stat| stat.len))
    }

    /// Everything about an object; `None` is a miss. Takes no guard.
    ///
    /// # Errors
    /// Only when nobody could be asked.
    pub async fn stat(&self, key: impl AsRef<[u8]>) -> Result<Option<ObjectStat>> {
        only(self.stat_many(&[key.as_ref()]).await)
    }

    /// Everything about objects.
    pub async fn stat_many(&self, keys: &[&[u8]]) -> Vec<Result<Option<ObjectStat>>> {
        let mut answers = Vec::with_capacity(keys.len());
        let checked = Checked::new(keys, &mut answers, unanswered);
        for (keys, positions) in checked
            .keys
            .chunks(BATCH_MAX)
            .zip(checked.positions.chunks(BATCH_MAX))
        {
            spread(
                &mut answers,
                positions,
                self.ports.metadata.stat(self.keys(keys)).await,
            );
        }
        answers
    }

    /// Marks objects as just used, in this order; what is not there is passed over.
    ///
    /// # Errors
    /// `InvalidKey`, or when nobody could be asked.
    pub async fn touch(&self, keys: &[&[u8]]) -> Result<()> {
        let keys: Vec<_> = keys
            .iter()
            .map(|key| Key::new(key))
            .collect::<Result<_>>()?;
        for keys in keys.chunks(BATCH_MAX) {
            self.ports.metadata.touch(self.keys(keys)).await?;
        }
        Ok(())
    }

    /// Wishes objects in memory that may lie below it. The answer says where each is on its way; `None` is a miss. What comes
    /// may leave again like anything else.
    ///
    /// # Errors
    /// Of an item: `NoAvailableHandle` when nothing may give way to it, `Backpressure` when too much has been on its way for as
    /// long as a put waits for room, `UnavailableInCurrentMode` where nothing is promoted.
    pub async fn prefetch_many(
        &self,
        keys: &[&[u8]],
        priority: Priority,
    ) -> Vec<Result<Option<Prefetched>>> {
        self.prefetch_as(keys, Prefetch::Begin(priority)).await
    }

    /// Takes wishes for objects in memory back: what is not there yet does not come.
    pub async fn cancel_prefetch(&self, keys: &[&[u8]]) -> Vec<Result<Option<Prefetched>>> {
        self.prefetch_as(keys, Prefetch::Cancel).await
    }

    async fn prefetch_as(&self, keys: &[&[u8]], wish: Prefetch) -> Vec<Result<Option<Prefetched>>> {
        let mut answers = Vec::with_capacity(keys.len());
        let checked = Checked::new(keys, &mut answers, unanswered);
        let (ports, patience) = (&self.ports, &self.patience);
        let done =
            journey::prefetch::prefetch(ports, patience, self.tenant, &checked.keys, wish).await;
        for (position, answer) in checked.positions.into_iter().zip(done) {
            answers[position] = answer;
        }
        answers
    }

    /// Removes an object.
    ///
    /// # Errors
    /// `ObjectNotFound`; `ObjectHasLease` while a reader holds it and `force` does not say otherwise;
    /// `ReplicaIsNotReady` while it is being written, likewise.
    pub async fn remove(&self, key: impl AsRef<[u8]>, force: Force) -> Result<()> {
        only(self.remove_many(&[key.as_ref()], force).await)
    }

    /// Removes objects.
    pub async fn remove_many(&self, keys: &[&[u8]], force: Force) -> Vec<Result<()>> {
        let mut answers = Vec::with_capacity(keys.len());
        let checked = Checked::new(keys, &mut answers, unanswered);
        for (keys, positions) in checked
            .keys
            .chunks(BATCH_MAX)
            .zip(checked.positions.chunks(BATCH_MAX))
        {
            spread(
                &mut answers,
                positions,
                self.ports.metadata.remove(self.keys(keys), force).await,
            );
        }
        answers
    }

    /// Removes every object whose key matches a regular expression (unanchored; all when empty). Versions that were
    /// begun after the call began stay.
    ///
    /// # Errors
    /// `InvalidParams` for a pattern that cannot be used; nothing is removed then.
    pub async fn remove_matching(&self, pattern: &str, force: Force) -> Result<Removed> {
        let mut sum = Removed::default();
        let mut cursor = None;
        loop {
            let page = self
                .ports
                .metadata
                .scan(self.tenant, pattern, ScanAction::Remove(force), cursor)
                .await?;
            sum.removed += page.removed;
            sum.leased += page.leased;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(sum);
            }
        }
    }

    /// Keys and payload lengths of the objects whose keys match a regular expression (unanchored; all when empty), at
    /// most `limit` of them.
    ///
    /// # Errors
    /// `InvalidParams` for a pattern that cannot be used.
    pub async fn list(&self, pattern: &str, limit: usize) -> Result<Vec<(ObjectKey, u64)>> {
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let page = self
                .ports
                .metadata
                .scan(self.tenant, pattern, ScanAction::List, cursor)
                .await?;
            found.extend(page.keys);
            cursor = page.next;
            if cursor.is_none() || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    fn keys<'a>(&self, keys: &'a [Key<'a>]) -> Keys<'a> {
        Keys {
            tenant: self.tenant,
            keys,
        }
    }
}

/// Lays the answers of one turn where they belong; an error of the whole turn is the answer of each.
fn spread<T: Clone>(answers: &mut [Result<T>], positions: &[usize], done: Result<Vec<Result<T>>>) {
    match done {
        Ok(done) => {
            for (position, answer) in positions.iter().zip(done) {
                answers[*position] = answer;
            }
        }
        Err(error) => {
            for position in positions {
                answers[*position] = Err(error.clone());
            }
        }
    }
}
