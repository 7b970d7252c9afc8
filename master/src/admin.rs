//! HTTP for people and their monitors: `/health`, `/metrics`, `/metrics/summary`, `/get_all_segments`. Read only.

use crate::{Partition, Seed, metrics};
use axum::{Json, Router, extract::State, http::header, response::IntoResponse, routing::get};
use serde::Serialize;
use std::sync::Arc;
use tokio::net::TcpListener;
use tracing::error;
use ziggurat_proto::counts::Counts;

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The partition.
    pub partition: Arc<Partition>,
    /// What serves foreign clients.
    pub seed: Arc<Seed>,
    /// What the server has seen.
    pub counts: Arc<Counts>,
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    era: u32,
    segments: u64,
    objects: u64,
}

async fn health(State(shared): State<Shared>) -> Json<Health> {
    let stats = shared.partition.stats_now();
    Json(Health {
        status: "ok",
        era: shared.partition.era().0,
        segments: stats.segments,
        objects: stats.objects,
    })
}

async fn all(State(shared): State<Shared>) -> impl IntoResponse {
    let text = metrics::text(
        &shared.partition.stats_now(),
        &shared.partition.segments_now(),
        &shared.counts.snapshot(),
        &shared.seed.counts(),
    );
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

async fn summary(State(shared): State<Shared>) -> String {
    metrics::summary(&shared.partition.stats_now())
}

async fn segments(State(shared): State<Shared>) -> String {
    let names = shared.partition.segments_now();
    names
        .iter()
        .map(|segment| format!("{}\n", segment.name))
        .collect()
}

/// Serves until `stopped` completes.
pub async fn serve(
    listener: TcpListener,
    shared: Shared,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let router = Router::new()
        .route("/health", get(health))
        .route("/metrics", get(all))
        .route("/metrics/summary", get(summary))
        .route("/get_all_segments", get(segments))
        .with_state(shared);
    if let Err(failure) = axum::serve(listener, router)
        .with_graceful_shutdown(stopped)
        .await
    {
        error!(%failure, "the admin server has ended");
    }
}
