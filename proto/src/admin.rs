//! HTTP for people and their monitors: `/health`, `/metrics`, `/metrics/summary`, `/get_all_segments`. Read only.
//!
//! A process has one endpoint, whatever it is made of: each part of it tells its own numbers through [`Part`], and the
//! [`Board`] shows them together. Refused here: what the numbers mean.

mod text;

pub use text::{Kind, Labels, Row, Text};

use axum::{
    Router,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    fmt,
    fmt::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::net::TcpListener;
use ziggurat_base::{Code, Error, Result};

/// What a part says of itself when nothing is wrong.
pub const OK: &str = "ok";

/// How a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// [`OK`], or in a word or two what is wrong; letters, digits and hyphens.
    pub status: &'static str,
    /// What a look from afar wants to see: names of letters and underscores.
    pub numbers: Vec<(&'static str, u64)>,
}

/// A part of a process, as people and their monitors see it.
pub trait Part: Send + Sync {
    /// How it is.
    fn health(&self) -> Health;
    /// All its numbers, in the text format of Prometheus; see [`Text`].
    fn metrics(&self) -> String;
    /// A few lines for people.
    fn summary(&self) -> String;
    /// The names of the segments that it knows of.
    fn segment_names(&self) -> Vec<String>;
}

/// The parts of a process. More may come while it is looked at.
#[derive(Default)]
pub struct Board(Mutex<Vec<Arc<dyn Part>>>);

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Board of {}", self.parts().len())
    }
}

impl Board {
    /// Shows one part more, behind those that are there.
    pub fn add(&self, part: Arc<dyn Part>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(part);
    }

    fn parts(&self) -> Vec<Arc<dyn Part>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// One object: the first trouble that a part has, and the numbers of all.
    fn health(&self) -> String {
        let all: Vec<_> = self.parts().iter().map(|part| part.health()).collect();
        let trouble = all.iter().find(|health| health.status != OK);
        let status = trouble.map_or(OK, |health| health.status);
        let mut out = format!("{{\"status\":\"{status}\"");
        for (name, value) in all.iter().flat_map(|health| &health.numbers) {
            let _into_memory = write!(out, ",\"{name}\":{value}");
        }
        out.push('}');
        out
    }

    /// The first part answers: it knows of the segments of those that came later.
    fn segment_names(&self) -> Vec<String> {
        let parts = self.parts();
        parts
            .first()
            .map_or_else(Vec::new, |part| part.segment_names())
    }

    fn joined(&self, tell: fn(&dyn Part) -> String) -> String {
        self.parts().iter().map(|part| tell(&**part)).collect()
    }
}

type Shown = State<Arc<Board>>;

async fn health(State(board): Shown) -> Response {
    ([(CONTENT_TYPE, "application/json")], board.health()).into_response()
}

async fn metrics(State(board): Shown) -> Response {
    let text = board.joined(|part| part.metrics());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn summary(State(board): Shown) -> String {
    board.joined(|part| part.summary())
}

async fn segments(State(board): Shown) -> String {
    let names = board.segment_names();
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// Listens; where that is, with the port that port 0 became. `setting` is what names the address.
///
/// # Errors
/// `ConfigInvalid` when the port is in use or the address is not this machine's.
pub async fn bind(address: SocketAddr, setting: &str) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error: std::io::Error| {
        Error::new(
            Code::ConfigInvalid,
            format!(
                "cannot listen on {address} ({setting}): {error}; choose another port or stop its owner"
            ),
        )
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Serves until `stopped` completes.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    board: Arc<Board>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/metrics/summary", get(summary))
        .route("/get_all_segments", get(segments))
        .with_state(board);
    axum::serve(listener, router)
        .with_graceful_shutdown(stopped)
        .await
}

#[cfg(test)]
mod tests {
    use super::{Board, Health, OK, Part};
    use std::sync::Arc;

    struct Stub(&'static str, &'static str, u64);

    impl Part for Stub {
        fn health(&self) -> Health {
            Health {
                status: self.1,
                numbers: vec![(self.0, self.2)],
            }
        }

        fn metrics(&self) -> String {
            format!("{} {}\n", self.0, self.2)
        }

        fn summary(&self) -> String {
            format!("{}\n", self.0)
        }

        fn segment_names(&self) -> Vec<String> {
            vec![format!("of {}", self.0)]
        }
    }

    #[test]
    fn all_parts_are_shown_and_one_in_trouble_is_seen() {
        let board = Board::default();
        assert_eq!(board.health(), r#"{"status":"ok"}"#);
        board.add(Arc::new(Stub("objects", OK, 7)));
        assert_eq!(board.health(), r#"{"status":"ok","objects":7}"#);
        board.add(Arc::new(Stub("directories", "read-only", 1)));
        assert_eq!(
            board.health(),
            r#"{"status":"read-only","objects":7,"directories":1}"#
        );
        assert_eq!(
            board.joined(|part| part.metrics()),
            "objects 7\ndirectories 1\n"
        );
        assert_eq!(board.segment_names(), ["of objects"]);
    }
}
