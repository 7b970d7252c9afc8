//! What a master shows over HTTP; the server is [`ziggurat_proto::admin`].

use crate::{Partition, Seed, metrics};
use std::sync::Arc;
use ziggurat_proto::{
    admin::{self, Health, Part},
    counts::Counts,
};

/// A master as a part of its process.
#[derive(Debug)]
pub struct View {
    /// The partition.
    pub partition: Arc<Partition>,
    /// What serves foreign clients.
    pub seed: Arc<Seed>,
    /// What the server has seen.
    pub counts: Arc<Counts>,
}

impl Part for View {
    fn health(&self) -> Health {
        let stats = self.partition.stats_now();
        Health {
            status: admin::OK,
            numbers: vec![
                ("era", self.partition.era().0.into()),
                ("segments", stats.segments),
                ("objects", stats.objects),
            ],
        }
    }

    fn metrics(&self) -> String {
        metrics::text(
            &self.partition.stats_now(),
            &self.partition.segments_now(),
            &self.counts.snapshot(),
            &self.seed.counts(),
        )
    }

    fn summary(&self) -> String {
        metrics::summary(&self.partition.stats_now())
    }

    fn segment_names(&self) -> Vec<String> {
        let segments = self.partition.segments_now();
        segments.iter().map(|s| s.name.to_string()).collect()
    }
}
