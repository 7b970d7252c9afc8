//! The latch of one write under way: held for one piece at a time, and closed for good to stop the write.

use std::sync::{Mutex, PoisonError};
use ziggurat_base::{Code, Error, Result, Ticket};

/// Whoever moves bytes of the write does so inside [`Latch::hold`]; after [`Latch::stop`] has returned, not a byte more
/// is moved. A piece is at most one chunk, and its mover does not block: so stopping waits for microseconds.
#[derive(Debug)]
pub(crate) struct Latch {
    ticket: Ticket,
    stopped: Mutex<bool>,
}

impl Latch {
    pub(crate) fn new(ticket: Ticket) -> Self {
        Self {
            ticket,
            stopped: Mutex::new(false),
        }
    }

    /// Moves one piece, unless the write was stopped.
    ///
    /// # Errors
    /// [`Code::InvalidWrite`] once it was.
    pub(crate) fn hold<R>(&self, piece: impl FnOnce() -> Result<R>) -> Result<R> {
        // A mover that panicked has left the flag as it was, so a poisoned lock says nothing new.
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if *stopped {
            return Err(Error::new(
                Code::InvalidWrite,
                format!(
                    "the write of ticket {} was stopped: it is fenced or a newer version is there",
                    self.ticket
                ),
            ));
        }
        piece()
    }

    /// Closes the latch, after the piece that is being moved now.
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

#[cfg(test)]
mod tests {
    use super::Latch;
    use ziggurat_base::{Code, Ticket};

    #[test]
    fn a_stopped_latch_moves_nothing() {
        let latch = Latch::new(Ticket(7));
        assert_eq!(latch.hold(|| Ok(3)).unwrap(), 3);
        latch.stop();
        let refused = latch.hold(|| -> ziggurat_base::Result<()> { unreachable!() });
        assert_eq!(refused.unwrap_err().code(), Code::InvalidWrite);
    }
}
