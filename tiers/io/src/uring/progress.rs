//! What follows when a part of a request has come back from the kernel. A pure function, so that results that a healthy
//! disk never gives can be tried.

use crate::cause::Doing;

/// A request and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Bytes moved, counted from the front.
    pub(super) done: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    WriteAndSync,
    Sync,
}

/// What to give to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The rest of the bytes.
    Data,
    /// The rest of the bytes, and after them, unless they fail or are cut short, the sync.
    DataThenSync,
    /// The sync.
    Sync,
}

/// What came back: for each part that was given to the kernel its result, negative for an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) data: Option<i32>,
    pub(super) sync: Option<i32>,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Give this to the kernel.
    Go(Step),
    /// All is done.
    Landed,
    /// The file ends here.
    TooShort(u64),
    /// The kernel moved nothing and said nothing.
    Stuck,
    /// The kernel said this.
    Failed(Doing, i32),
}

impl Progress {
    /// The first thing to give to the kernel.
    pub(super) fn first(&self, linked: bool) -> Step {
        match self.kind {
            Kind::WriteAndSync if linked => Step::DataThenSync,
            Kind::Sync => Step::Sync,
            Kind::Read | Kind::Write | Kind::WriteAndSync => Step::Data,
        }
    }

    /// What follows from the results of all parts that were given to the kernel.
    pub(super) fn after(&mut self, results: Results, block: u64, linked: bool) -> Next {
        if let Some(moved) = results.data
            && let Some(next) = self.after_data(moved, block, linked)
        {
            return next;
        }
        match results.sync {
            Some(0..) => Next::Landed,
            Some(failed) if again(failed) || -failed == libc::ECANCELED => Next::Go(Step::Sync),
            Some(failed) => Next::Failed(Doing::Sync, -failed),
            None if self.kind == Kind::WriteAndSync => Next::Go(Step::Sync),
            None => Next::Landed,
        }
    }

    /// None when all bytes are moved.
    fn after_data(&mut self, moved: i32, block: u64, linked: bool) -> Option<Next> {
        if again(moved) {
            return Some(Next::Go(self.first(linked)));
        }
        if moved < 0 {
            return Some(Next::Failed(self.doing(), -moved));
        }
        self.done += u64::from(moved.unsigned_abs());
        assert!(
            self.done <= self.len,
            "the kernel moved more than it was asked"
        );
        if self.done == self.len {
            return None;
        }
        let next = match self.kind {
            // Only the end of a file ends a read in the middle of a block, and the rest could not be asked for.
            Kind::Read if moved == 0 || !self.done.is_multiple_of(block) => {
                Next::TooShort(self.offset + self.done)
            }
            _ if moved == 0 => Next::Stuck,
            _ => Next::Go(self.first(linked)),
        };
        Some(next)
    }

    /// What the request is, for messages.
    pub(super) fn doing(&self) -> Doing {
        let (offset, len) = (self.offset, self.len);
        match self.kind {
            Kind::Read => Doing::Read { offset, len },
            Kind::Write | Kind::WriteAndSync => Doing::Write { offset, len },
            Kind::Sync => Doing::Sync,
        }
    }
}

fn again(result: i32) -> bool {
    matches!(-result, libc::EINTR | libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Next, Progress, Results, Step};
    use crate::cause::Doing;

    fn progress(kind: Kind) -> Progress {
        Progress {
            kind,
            offset: 1024,
            len: 4096,
            done: 0,
        }
    }

    fn data(moved: i32) -> Results {
        Results {
            data: Some(moved),
            sync: None,
        }
    }

    #[test]
    fn short_transfers_are_gone_on_with() {
        for kind in [Kind::Read, Kind::Write] {
            let mut progress = progress(kind);
            assert_eq!(progress.after(data(512), 512, true), Next::Go(Step::Data));
            assert_eq!(
                progress.after(data(-libc::EINTR), 512, true),
                Next::Go(Step::Data)
            );
            assert_eq!(progress.done, 512);
            assert_eq!(progress.after(data(3584), 512, true), Next::Landed);
        }
    }

    #[test]
    fn a_read_that_stops_inside_a_block_has_met_the_end() {
        assert_eq!(
            progress(Kind::Read).after(data(700), 512, true),
            Next::TooShort(1724)
        );
        assert_eq!(
            progress(Kind::Read).after(data(0), 512, true),
            Next::TooShort(1024)
        );
        assert_eq!(progress(Kind::Write).after(data(0), 512, true), Next::Stuck);
    }

    #[test]
    fn errors_say_what_was_being_done() {
        let doing = Doing::Read {
            offset: 1024,
            len: 4096,
        };
        let next = progress(Kind::Read).after(data(-libc::EIO), 512, true);
        assert_eq!(next, Next::Failed(doing, libc::EIO));
    }

    #[test]
    fn a_linked_sync_is_given_again_with_the_rest_of_a_short_write() {
        let mut progress = progress(Kind::WriteAndSync);
        assert_eq!(progress.first(true), Step::DataThenSync);
        let both = |data, sync| Results {
            data: Some(data),
            sync: Some(sync),
        };
        let next = progress.after(both(1024, -libc::ECANCELED), 512, true);
        assert_eq!(next, Next::Go(Step::DataThenSync));
        assert_eq!(progress.after(both(3072, 0), 512, true), Next::Landed);
    }

    #[test]
    fn a_write_whose_sync_fails_has_failed() {
        let results = Results {
            data: Some(4096),
            sync: Some(-libc::EIO),
        };
        let next = progress(Kind::WriteAndSync).after(results, 512, true);
        assert_eq!(next, Next::Failed(Doing::Sync, libc::EIO));
    }

    #[test]
    fn without_links_the_sync_follows_the_write() {
        let mut progress = progress(Kind::WriteAndSync);
        assert_eq!(progress.first(false), Step::Data);
        assert_eq!(progress.after(data(4096), 512, false), Next::Go(Step::Sync));
        let synced = Results {
            data: None,
            sync: Some(0),
        };
        assert_eq!(progress.after(synced, 512, false), Next::Landed);
    }
}
