//! HTTP/2 on a connection whose first bytes were already read.

use super::{Peer, SeedBackend, message::master_service_server::MasterServiceServer, service};
use crate::counts::Counts;
use hyper::server::conn::http2::Builder;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch as flag,
};
use ziggurat_base::frame::META_LEN_MAX;

/// First bytes of every HTTP/2 connection.
pub(crate) const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Calls of one connection at the same time.
const STREAMS_MAX: u32 = 128;

/// A silent connection is asked whether it lives.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);

/// Tells the backend that a client has gone, however its connection ended.
struct Goodbye {
    backend: Arc<dyn SeedBackend>,
    peer: Peer,
}

impl Drop for Goodbye {
    fn drop(&mut self) {
        self.backend.gone(self.peer);
    }
}

/// Serves a foreign client until its connection ends or the server stops.
pub(crate) async fn serve(
    stream: TcpStream,
    backend: Arc<dyn SeedBackend>,
    peer: Peer,
    counts: Arc<Counts>,
    mut stopped: flag::Receiver<bool>,
) {
    let _goodbye = Goodbye {
        backend: backend.clone(),
        peer,
    };
    let service = service::SeedService {
        backend,
        peer,
        counts,
    };
    let service =
        MasterServiceServer::new(service).max_decoding_message_size(META_LEN_MAX as usize);
    let connection = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(KEEP_ALIVE_EVERY)
        .serve_connection(
            TokioIo::new(Rewound { given: 0, stream }),
            TowerToHyperService::new(service),
        );
    tokio::pin!(connection);
    tokio::select! {
        // How a foreign connection breaks is nobody's concern but its client's.
        _ = &mut connection => return,
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// A connection that gives its preface once more.
struct Rewound {
    given: usize,
    stream: TcpStream,
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &PREFACE[self.given..];
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.given += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
