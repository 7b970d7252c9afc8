//! A thread for calls that may take long and have no place on the ring: names, allocation, closing.
//!
//! Its queue grows only by what callers await and by files that are closed, of which a process has few.

use crate::answer::answer;
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};
use ziggurat_base::{Code, Error, Job, Result};

type Task = Box<dyn FnOnce() + Send>;

/// The thread. Dropping it lets everything that was sent come to its end.
#[derive(Debug)]
pub(crate) struct Helper {
    desk: Desk,
    thread: Option<JoinHandle<()>>,
}

/// Where tasks are handed in.
#[derive(Clone, Debug)]
pub(crate) struct Desk(Sender<Message>);

enum Message {
    Task(Task),
    End,
}

impl Helper {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Code::Internal`] when the system has no thread left.
    pub(crate) fn start() -> Result<Self> {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new()
            .name("ziggurat-disk".into())
            .spawn(move || work(&receiver))
            .map_err(|cause| no_thread(&cause))?;
        Ok(Self {
            desk: Desk(sender),
            thread: Some(thread),
        })
    }

    /// Where tasks are handed in.
    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }
}

/// What is said when the system refuses a thread.
pub(crate) fn no_thread(cause: &std::io::Error) -> Error {
    let what = format!(
        "cannot start a thread for the disk: {cause}; raise the limit of threads (ulimit -u)"
    );
    Error::new(Code::Internal, what)
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It listens until it is told to end, which happens here only.
        drop(self.desk.0.send(Message::End));
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

/// Waits for a thread, unless it is this one: then it ends by itself.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        // A thread that panicked has said so.
        drop(thread.join());
    }
}

fn work(tasks: &Receiver<Message>) {
    while let Ok(Message::Task(task)) = tasks.recv() {
        task();
    }
}

impl Desk {
    /// Hands in a task that nobody waits for. When the thread has ended already, it is done here.
    pub(crate) fn post(&self, task: impl FnOnce() + Send + 'static) {
        if let Err(unsent) = self.0.send(Message::Task(Box::new(task)))
            && let Message::Task(task) = unsent.0
        {
            task();
        }
    }

    /// Hands in a call and waits for its answer. It is carried out whether or not the answer is awaited.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Job<'static, Result<T>> {
        let (giver, waiter) = answer();
        self.post(move || giver.give(call()));
        Box::pin(waiter)
    }
}
