//! The loop of the ring's thread: take requests, give them to the kernel, wait, land what has come back.

use super::{
    Found, Plan, Shared,
    progress::{Next, Results, Step},
    ring::Ring,
    table::{Flying, Table},
};
use crate::{buffer::Pool, local::Work, threads::wrote_nothing};
use std::{collections::VecDeque, io, mem::ManuallyDrop};
use ziggurat_base::{Code, Error, Result};

/// The mark of a read of the bell. Those of requests are twice their place, and one more for the sync.
const BELL: u64 = u64::MAX;

/// See the module.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    plan: Plan,
    ring: Ring,
    /// Where reads and writes go when completions are polled for; syncs and the bell cannot.
    polled: Option<Ring>,
    /// Parts of requests on that ring.
    polled_parts: usize,
    backlog: VecDeque<Work>,
    table: Table,
    /// Completions of one round, to use their room again.
    round: Vec<(u64, i32)>,
    bell: Bell,
    closing: bool,
}

/// The read of the bell. The kernel writes into the word while it is under way.
struct Bell {
    word: ManuallyDrop<Box<u64>>,
    is_read: bool,
}

impl Drop for Bell {
    fn drop(&mut self) {
        // A ring that failed may still write there.
        if !self.is_read {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.word) };
        }
    }
}

impl<'a> Turn<'a> {
    pub(super) fn new(shared: &'a Shared, pool: &Pool, plan: &Plan) -> io::Result<(Self, Found)> {
        let mut found = Found::default();
        let mut ring = Ring::new(plan, false, &mut found)?;
        let mut polled = None;
        if plan.iopoll {
            found = Found::default();
            polled = Some(Ring::new(plan, true, &mut found)?);
        }
        polled
            .as_mut()
            .unwrap_or(&mut ring)
            .register(pool, &mut found);
        let turn = Self {
            shared,
            plan: plan.clone(),
            ring,
            polled,
            polled_parts: 0,
            backlog: VecDeque::new(),
            table: Table::default(),
            round: Vec::new(),
            bell: Bell {
                word: ManuallyDrop::new(Box::new(0)),
                is_read: false,
            },
            closing: false,
        };
        Ok((turn, found))
    }

    /// Runs until the engine is dropped and all has landed. Returns what is said to those who come later.
    pub(super) fn run(mut self) -> Error {
        loop {
            match self.go() {
                Ok(true) => {}
                Ok(false) => return Error::new(Code::Cancelled, "the disk was closed"),
                Err(cause) => return self.fail(&cause),
            }
        }
    }

    /// The ring as a whole does not work: no request can cause that.
    fn fail(mut self, cause: &io::Error) -> Error {
        let what = format!("io_uring has failed: {cause}; restart with the engine `threads`");
        let error = Error::new(Code::Internal, what);
        self.table.abandon(&error);
        for work in self.backlog.drain(..) {
            work.refuse(&error);
        }
        error
    }

    /// One turn; false when there will be no other.
    fn go(&mut self) -> io::Result<bool> {
        self.fetch();
        self.launch()?;
        let idle = self.backlog.is_empty() && self.table.count() == 0;
        if self.closing && idle && !self.bell.is_read {
            return Ok(false);
        }
        self.wait()?;
        self.land_all();
        Ok(true)
    }

    fn fetch(&mut self) {
        let mut queue = self.shared.queue();
        queue.asleep = false;
        self.closing = queue.closing;
        self.backlog.append(&mut queue.work);
        let unwanted = std::mem::take(&mut queue.unwanted);
        drop(queue);
        for (file, slot) in unwanted {
            self.data_ring().discard(slot);
            self.shared.desk.post(move || drop(file));
        }
    }

    fn launch(&mut self) -> io::Result<()> {
        if !self.bell.is_read && !self.closing {
            self.bell.is_read = true;
            let word = &raw mut **self.bell.word;
            // SAFETY: the word is freed only when no read is under way, and nobody looks at it.
            unsafe { self.ring.push_bell(&self.shared.bell, word, BELL) };
        }
        while self.table.count() < self.plan.depth
            && let Some(work) = self.backlog.pop_front()
        {
            let flying = Flying::new(work);
            let step = flying.progress.first(self.is_linked());
            self.data_ring().adopt(&flying.handle);
            let place = self.table.add(flying);
            self.push(place, step);
            // Each request on its way before the next is looked at: on disks that are fast, the time to prepare a batch
            // is time in which the device does nothing.
            self.data_ring().submit(0)?;
        }
        Ok(())
    }

    /// Puts parts of a request on the rings.
    fn push(&mut self, place: u32, step: Step) {
        let (data, sync) = (u64::from(place) * 2, u64::from(place) * 2 + 1);
        let flying = self.table.get(place);
        flying.results = Results::default();
        let (ring, is_polled) = match &mut self.polled {
            Some(polled) if step == Step::Data => (polled, true),
            _ => (&mut self.ring, false),
        };
        // SAFETY: the table keeps file and buffer until all parts have come back, whatever happens, and touches them no
        // earlier.
        unsafe {
            match step {
                Step::Data => ring.push_data(flying, data, None),
                Step::DataThenSync => ring.push_data(flying, data, Some(sync)),
                Step::Sync => ring.push_sync(&flying.handle, sync),
            }
        }
        flying.parts = if step == Step::DataThenSync { 2 } else { 1 };
        self.polled_parts += usize::from(is_polled);
    }

    /// Submits what was pushed, and sleeps until something comes back.
    fn wait(&mut self) -> io::Result<()> {
        {
            let mut queue = self.shared.queue();
            let has_room = self.table.count() < self.plan.depth;
            let has_news = !queue.work.is_empty()
                || !queue.unwanted.is_empty()
                || queue.closing != self.closing;
            if has_room && has_news {
                return Ok(());
            }
            // With a full window there is nothing to wake up for but completions.
            queue.asleep = has_room;
        }
        match &mut self.polled {
            Some(polled) if self.polled_parts > 0 => {
                polled.submit(1)?;
                self.ring.submit(0)
            }
            _ => self.ring.submit(1),
        }
    }

    fn land_all(&mut self) {
        let mut round = std::mem::take(&mut self.round);
        if let Some(polled) = &mut self.polled {
            polled.collect(&mut round);
            self.polled_parts -= round.len();
        }
        self.ring.collect(&mut round);
        for (mark, result) in round.drain(..) {
            if mark == BELL {
                self.bell.is_read = false;
            } else {
                self.came_back(mark, result);
            }
        }
        self.round = round;
    }

    fn came_back(&mut self, mark: u64, result: i32) {
        let place = u32::try_from(mark / 2).expect("a mark is made of a place");
        let linked = self.is_linked();
        let flying = self.table.get(place);
        let part = match mark % 2 {
            0 => &mut flying.results.data,
            _ => &mut flying.results.sync,
        };
        *part = Some(result);
        flying.parts -= 1;
        if flying.parts > 0 {
            return;
        }
        let block = u64::from(self.plan.block);
        match flying.progress.after(flying.results, block, linked) {
            Next::Go(step) => self.push(place, step),
            over => {
                let flying = self.table.take(place);
                let result = verdict(&flying, over);
                flying.land(result);
            }
        }
    }

    fn is_linked(&self) -> bool {
        self.polled.is_none()
    }

    fn data_ring(&mut self) -> &mut Ring {
        self.polled.as_mut().unwrap_or(&mut self.ring)
    }
}

fn verdict(flying: &Flying, over: Next) -> Result<()> {
    let handle = &flying.handle;
    match over {
        Next::Go(_) => unreachable!("it is over"),
        Next::Landed => Ok(()),
        Next::TooShort(end) => Err(handle.too_short(flying.progress.doing(), end)),
        Next::Stuck => Err(wrote_nothing(handle, flying.progress.doing())),
        Next::Failed(doing, number) => {
            Err(handle.refused(doing, &io::Error::from_raw_os_error(number)))
        }
    }
}
