//! A line between a node and its master that the test can cut, or keep answers back on.

use crate::cluster::ANY;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What becomes of the line's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    /// What comes from the node next passes, and nothing from the master after that.
    NoAnswerToNext,
    /// Nothing from the master passes.
    NoAnswer,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: Arc<Mutex<Mode>>,
    cut: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    pub(crate) async fn before(master: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mode = Arc::new(Mutex::new(Mode::Open));
        let (cut, line) = watch::channel(0);
        let shared = mode.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let (node, _) = listener.accept().await.unwrap();
                let (mode, mut line) = (shared.clone(), line.clone());
                line.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        () = carry(node, master, &mode) => {}
                        _ = line.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            mode,
            cut,
            accepting,
        }
    }

    /// Lets the node ask once more, and keeps the answer back.
    pub(crate) fn keep_next_answer(&self) {
        *self.mode.lock().unwrap() = Mode::NoAnswerToNext;
    }

    /// Ends every connection; the next ones are carried again.
    pub(crate) fn cut(&self) {
        *self.mode.lock().unwrap() = Mode::Open;
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

async fn carry(mut node: TcpStream, master: SocketAddr, mode: &Mutex<Mode>) {
    let mut master = TcpStream::connect(master).await.unwrap();
    let (mut from_node, mut to_node) = node.split();
    let (mut from_master, mut to_master) = master.split();
    let up = async {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from_node.read(&mut chunk).await {
            {
                let mut mode = mode.lock().unwrap();
                if *mode == Mode::NoAnswerToNext {
                    *mode = Mode::NoAnswer;
                }
            }
            to_master.write_all(&chunk[..len]).await.unwrap();
        }
    };
    let down = async {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from_master.read(&mut chunk).await {
            if *mode.lock().unwrap() == Mode::NoAnswer {
                // Until the line is cut.
                std::future::pending::<()>().await;
            }
            to_node.write_all(&chunk[..len]).await.unwrap();
        }
    };
    tokio::select! {
        () = down => {}
        () = up => {}
    }
}
