//! Reads of one connection that are fetched before it is their turn to be answered, so that a batch of them keeps a disk
//! as busy as its depth. Answers stay in order; the bytes that are fetched or lie ready are bounded.
//!
//! Only reads of whole objects come here: such a fetch takes its memory once. Who is answered first has then taken it
//! first, so that none waits for memory that those behind it hold.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    task::{Context, Poll},
};
use ziggurat_base::{Job, Result, frame::Header};
use ziggurat_engine::port::ReadSlot;

/// Bytes that may be fetched or lie ready; a longer read goes alone.
const BYTES_MAX: u64 = 4 << 20;

/// Reads that may be under way.
const COUNT_MAX: usize = 64;

/// What a fetch gives.
pub(super) type Fetched = Result<Box<dyn ReadSlot>>;

enum State {
    UnderWay(Job<'static, Fetched>),
    Ready(Fetched),
}

struct Fetch {
    header: Header,
    len: u64,
    state: State,
}

/// See the module.
#[derive(Default)]
pub(super) struct Ahead {
    fetches: VecDeque<Fetch>,
    bytes: u64,
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ahead({} of {} bytes)", self.fetches.len(), self.bytes)
    }
}

impl Ahead {
    pub(super) fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }

    /// Whether one of `len` bytes may be added.
    pub(super) fn has_room(&self, len: u64) -> bool {
        let fits = self.bytes.saturating_add(len) <= BYTES_MAX;
        self.is_empty() || (fits && self.fetches.len() < COUNT_MAX)
    }

    /// Adds the answer to `header`, which gives `len` bytes. It begins when everything goes on.
    pub(super) fn push(&mut self, header: Header, len: u64, job: Job<'static, Fetched>) {
        self.bytes += len;
        let state = State::UnderWay(job);
        self.fetches.push_back(Fetch { header, len, state });
    }

    /// Lets everything go on; whether the first is ready.
    pub(super) async fn go_on(&mut self) -> bool {
        poll_fn(|context| Poll::Ready(self.poll(context))).await
    }

    /// Completes when the first is ready, or there is none.
    pub(super) async fn first(&mut self) {
        poll_fn(|context| match self.poll(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        for fetch in &mut self.fetches {
            if let State::UnderWay(job) = &mut fetch.state
                && let Poll::Ready(fetched) = job.as_mut().poll(context)
            {
                fetch.state = State::Ready(fetched);
            }
        }
        let first = self.fetches.front().map(|fetch| &fetch.state);
        !matches!(first, Some(State::UnderWay(_)))
    }

    /// Hands the first out, if it is ready.
    pub(super) fn take(&mut self) -> Option<(Header, Fetched)> {
        let Some(Fetch {
            state: State::Ready(_),
            ..
        }) = self.fetches.front()
        else {
            return None;
        };
        let first = self.fetches.pop_front()?;
        self.bytes -= first.len;
        match first.state {
            State::Ready(fetched) => Some((first.header, fetched)),
            State::UnderWay(_) => unreachable!("it was looked at before"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ahead, BYTES_MAX, COUNT_MAX};
    use ziggurat_base::{
        Code,
        frame::{Header, Kind},
    };

    fn push(ahead: &mut Ahead, len: u64) {
        let header = Header::new(Kind::Read, len);
        let job = Box::pin(async { Err(Code::ReplicaIsGone.into()) });
        ahead.push(header, len, job);
    }

    #[tokio::test]
    async fn bytes_and_count_are_bounded_and_come_back() {
        let mut ahead = Ahead::default();
        assert!(ahead.has_room(u64::MAX), "alone, anything goes");
        push(&mut ahead, BYTES_MAX - 1);
        assert!(ahead.has_room(1) && !ahead.has_room(2));
        assert!(ahead.take().is_none(), "it has not begun");
        assert!(ahead.go_on().await);
        let (header, fetched) = ahead.take().unwrap();
        assert_eq!(header.request, BYTES_MAX - 1);
        assert!(fetched.is_err() && ahead.is_empty() && ahead.bytes == 0);
        for _ in 0..COUNT_MAX {
            assert!(ahead.has_room(0));
            push(&mut ahead, 0);
        }
        assert!(!ahead.has_room(0));
    }
}
