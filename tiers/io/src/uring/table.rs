//! Requests that the kernel has, by the number that it gives back with their results.

use super::progress::{Kind, Progress, Results};
use crate::{
    answer::Giver,
    buffer::Buffer,
    disk::{Landed, Request},
    local::{Work, handle::Handle},
};
use std::{mem, sync::Arc};
use ziggurat_base::{Code, Error, Result};

/// A request under way.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) handle: Arc<Handle>,
    pub(super) buffer: Option<Buffer>,
    pub(super) progress: Progress,
    pub(super) results: Results,
    /// How many parts the kernel has.
    pub(super) parts: u32,
    landing: Giver<Landed>,
}

impl Flying {
    pub(super) fn new(work: Work) -> Self {
        let (kind, offset, buffer) = match work.request {
            Request::Read { offset, buffer } => (Kind::Read, offset, Some(buffer)),
            Request::Write {
                offset,
                buffer,
                sync,
            } => {
                let kind = if sync {
                    Kind::WriteAndSync
                } else {
                    Kind::Write
                };
                (kind, offset, Some(buffer))
            }
            Request::Sync => (Kind::Sync, 0, None),
        };
        Self {
            handle: work.handle,
            progress: Progress {
                kind,
                offset,
                len: buffer.as_ref().map_or(0, |buffer| buffer.len() as u64),
                done: 0,
            },
            buffer,
            results: Results::default(),
            parts: 0,
            landing: work.landing,
        }
    }

    /// Gives the buffer back and says how it went. The file goes first: whoever has the answer may expect that the file
    /// can be closed.
    pub(super) fn land(self, result: Result<()>) {
        drop(self.handle);
        self.landing.give(Landed {
            buffer: self.buffer,
            result,
        });
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Option<Flying>>,
    free: Vec<u32>,
    count: u32,
}

impl Table {
    /// How many requests are under way.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn add(&mut self, flying: Flying) -> u32 {
        self.count += 1;
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(flying);
            return place;
        }
        self.places.push(Some(flying));
        u32::try_from(self.places.len() - 1).expect("a window is smaller than that")
    }

    pub(super) fn get(&mut self, place: u32) -> &mut Flying {
        self.places[place as usize]
            .as_mut()
            .expect("the kernel gives back what it was given")
    }

    pub(super) fn take(&mut self, place: u32) -> Flying {
        let flying = self.places[place as usize].take();
        self.free.push(place);
        self.count -= 1;
        flying.expect("the kernel gives back what it was given")
    }
}

impl Table {
    /// Tells all callers that the ring has failed. The kernel may still use the memory of what it has, so that nobody
    /// ever gets it again.
    pub(super) fn abandon(&mut self, error: &Error) {
        for flying in self.places.drain(..).flatten() {
            let mut buffer = flying.buffer;
            if flying.parts > 0 {
                mem::forget((buffer.take(), flying.handle));
            }
            flying.landing.give(Landed {
                buffer,
                result: Err(error.clone()),
            });
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // Empty unless the thread panics.
        self.abandon(&Error::new(Code::Internal, "the disk engine panicked"));
    }
}
