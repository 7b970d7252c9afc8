//! An open file of the simulated disk, and its flights.

use super::{
    Shared,
    content::Inode,
    fault::{Fault, Op},
};
use crate::{
    buffer::Buffer,
    disk::{File, Flight, Landed, Request},
    door::{check, check_range},
};
use std::{fmt, sync::Arc};
use ziggurat_base::{Job, Result};

/// See the module.
pub(super) struct MemFile {
    shared: Arc<Shared>,
    name: String,
    inode: Arc<Inode>,
}

impl MemFile {
    pub(super) fn open(shared: &Arc<Shared>, name: &str, inode: Arc<Inode>) -> Arc<dyn File> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            name: name.to_owned(),
            inode,
        })
    }

    fn fly(&self, request: Request) -> Flight {
        let geometry = self.shared.geometry;
        if let Err(error) = check(geometry, &self.name, self.inode.len(), &request) {
            return landed(request.into_buffer(), Err(error));
        }
        match request {
            Request::Read { offset, buffer } => self.read(offset, buffer),
            Request::Write {
                offset,
                buffer,
                sync,
            } => self.write(offset, buffer, sync),
            Request::Sync => self.sync(),
        }
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Flight {
        let len = buffer.len() as u64;
        let (fault, delay) = self
            .shared
            .judge(Op::Read, &self.name, offset..offset + len);
        let told = fault.filter(|fault| fault.is_told());
        let error = told.map(|fault| fault.error(Op::Read, &self.name));
        let (shared, inode) = (Arc::clone(&self.shared), Arc::clone(&self.inode));
        Box::pin(async move {
            over(delay).await;
            shared.counter.add(|counts| {
                counts.reads += 1;
                counts.bytes_read += if error.is_none() { len } else { 0 };
            });
            if let Some(error) = error {
                return landing(Some(buffer), Err(error));
            }
            match fault {
                Some(Fault::Misplaced { offset }) => {
                    let end = inode.len() - len;
                    inode.read(offset.min(end) / inode.block() * inode.block(), &mut buffer);
                }
                _ => inode.read(offset, &mut buffer),
            }
            if let Some(Fault::Rot { bit }) = fault {
                flip(&mut buffer, bit);
            }
            landing(Some(buffer), Ok(()))
        })
    }

    fn write(&self, offset: u64, buffer: Buffer, sync: bool) -> Flight {
        let len = buffer.len() as u64;
        let (fault, delay) = self
            .shared
            .judge(Op::Write, &self.name, offset..offset + len);
        let told = fault.filter(|fault| fault.is_told());
        let mut result = told.map_or(Ok(()), |fault| Err(fault.error(Op::Write, &self.name)));
        let left = match fault {
            Some(Fault::Full) => Ok(None),
            fault => leave(&self.inode, offset, &buffer, fault),
        };
        let mut under_way = UnderWay::new(&self.inode);
        match left {
            Ok(write) => under_way.write = write,
            Err(error) => result = Err(error),
        }
        if sync && result.is_ok() {
            under_way.sync = Some(self.inode.begin_sync(under_way.write));
        }
        self.shared.counter.add(|counts| {
            counts.writes += 1;
            counts.bytes_written += if result.is_ok() { len } else { 0 };
        });
        self.fly_on(under_way, delay, Some(buffer), result)
    }

    fn sync(&self) -> Flight {
        let (fault, delay) = self.shared.judge(Op::Sync, &self.name, 0..0);
        let mut under_way = UnderWay::new(&self.inode);
        let sync = self.inode.begin_sync(None);
        let mut result = Ok(());
        match fault {
            Some(fault) if fault.is_told() => {
                self.inode.fail_sync(sync);
                result = Err(fault.error(Op::Sync, &self.name));
            }
            Some(Fault::Lost) => self.inode.lose_sync(sync),
            _ => under_way.sync = Some(sync),
        }
        self.fly_on(under_way, delay, None, result)
    }

    fn fly_on(
        &self,
        under_way: UnderWay,
        delay: Option<Job<'static, ()>>,
        buffer: Option<Buffer>,
        result: Result<()>,
    ) -> Flight {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            over(delay).await;
            if let Some(bytes) = under_way.land() {
                shared.counter.add(|counts| {
                    counts.syncs += 1;
                    counts.bytes_synced += bytes;
                });
            }
            landing(buffer, result)
        })
    }
}

/// Writes what a fault leaves of `bytes`.
fn leave(inode: &Inode, offset: u64, bytes: &[u8], fault: Option<Fault>) -> Result<Option<u64>> {
    let first = |blocks: u64| {
        let len = blocks.saturating_mul(inode.block()).min(bytes.len() as u64);
        &bytes[..len as usize]
    };
    let write = match fault {
        Some(Fault::Lost | Fault::Full | Fault::Fails { blocks: 0 }) => return Ok(None),
        Some(Fault::Fails { blocks } | Fault::Torn { blocks }) => {
            inode.write(offset, first(blocks))
        }
        Some(Fault::Misplaced { offset }) => inode.write(offset, bytes),
        Some(Fault::Rot { bit }) => {
            let mut bytes = bytes.to_vec();
            flip(&mut bytes, bit);
            inode.write(offset, &bytes)
        }
        None => inode.write(offset, bytes),
    };
    write.map(Some)
}

fn flip(bytes: &mut [u8], bit: u64) {
    let bit = bit % (bytes.len() as u64 * 8);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}

async fn over(delay: Option<Job<'static, ()>>) {
    if let Some(delay) = delay {
        delay.await;
    }
}

fn landing(buffer: Option<Buffer>, result: Result<()>) -> Landed {
    Landed { buffer, result }
}

fn landed(buffer: Option<Buffer>, result: Result<()>) -> Flight {
    Box::pin(std::future::ready(landing(buffer, result)))
}

/// A write or sync whose flight has not landed. Dropping it means that nobody will know.
struct UnderWay {
    inode: Arc<Inode>,
    write: Option<u64>,
    sync: Option<u64>,
}

impl UnderWay {
    fn new(inode: &Arc<Inode>) -> Self {
        Self {
            inode: Arc::clone(inode),
            write: None,
            sync: None,
        }
    }

    /// Returns how many bytes became durable, if this was a sync.
    fn land(mut self) -> Option<u64> {
        if let Some(write) = self.write.take() {
            self.inode.land(write);
        }
        self.sync.take().map(|sync| self.inode.end_sync(sync))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(write) = self.write {
            self.inode.stray(write);
        }
        if let Some(sync) = self.sync {
            self.inode.stray_sync(sync);
        }
    }
}

impl File for MemFile {
    fn len(&self) -> u64 {
        self.inode.len()
    }

    fn start(&self, requests: Vec<Request>) -> Vec<Flight> {
        requests
            .into_iter()
            .map(|request| self.fly(request))
            .collect()
    }

    fn punch(&self, offset: u64, len: u64) -> Job<'_, Result<()>> {
        self.shared.call(Op::Punch, &self.name, move || {
            let geometry = self.shared.geometry;
            check_range(geometry, &self.name, self.inode.len(), offset, len)?;
            self.inode.punch(offset, len);
            Ok(())
        })
    }
}

impl fmt::Debug for MemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemFile({}, {} bytes)", self.name, self.inode.len())
    }
}
