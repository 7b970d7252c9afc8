//! What a node shows over HTTP; the server is [`ziggurat_proto::admin`].

use crate::{
    duty::Post,
    keeper::{Keeper, Offload},
    metrics,
    ssd::Opened,
};
use std::sync::Arc;
use tokio::sync::watch;
use ziggurat_base::ByteCount;
use ziggurat_io::Report;
use ziggurat_proto::admin::{self, Health, Part};
use ziggurat_tiers::{
    dram::DramTier,
    ssd::{Recovered, Stats},
};
use ziggurat_transport::server::Server;

/// What was found out about a directory when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The name of its segment.
    pub(crate) name: Box<str>,
    /// What drives it, and why nothing better.
    pub(crate) engine: Report,
    /// What was in it.
    pub(crate) found: Recovered,
}

impl Facts {
    pub(crate) fn of(opened: &Opened) -> Self {
        Self {
            name: opened.directory.name.clone(),
            engine: opened.engine.clone(),
            found: opened.found.clone(),
        }
    }
}

/// A directory at one moment.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) stats: Stats,
}

/// A node as a part of its process.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) tier: Arc<DramTier>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) server: Server,
    pub(crate) post: watch::Receiver<Post>,
    /// The names of the segments of memory.
    pub(crate) segments: Vec<String>,
    /// Of each directory, in the order of the keeper's.
    pub(crate) facts: Vec<Facts>,
}

impl View {
    fn seen(&self) -> Vec<Seen<'_>> {
        let stats = self.keeper.tiers().map(|tier| tier.stats());
        let both = self.facts.iter().zip(stats);
        both.map(|(facts, stats)| Seen { facts, stats }).collect()
    }

    fn is_in_touch(&self) -> bool {
        self.post.borrow().in_touch
    }
}

/// What is wrong with a node: without its master nobody finds what it holds, and what takes nothing more loses what comes.
fn status(is_in_touch: bool, directories: &[Seen<'_>]) -> &'static str {
    match directories.iter().any(|seen| seen.stats.full) {
        _ if !is_in_touch => "no-master",
        true => "read-only-ssd",
        false => admin::OK,
    }
}

impl Part for View {
    fn health(&self) -> Health {
        let seen = self.seen();
        let sum = |number: fn(&Stats) -> u64| seen.iter().map(|s| number(&s.stats)).sum::<u64>();
        Health {
            status: status(self.is_in_touch(), &seen),
            numbers: vec![
                ("member", self.tier.member().0),
                ("memory_bytes", self.tier.capacity().0),
                ("ssd_directories", seen.len() as u64),
                ("ssd_objects", sum(|stats| stats.records)),
            ],
        }
    }

    fn metrics(&self) -> String {
        metrics::text(&metrics::Numbers {
            is_in_touch: self.is_in_touch(),
            memory: self.tier.capacity(),
            data: self.server.counts(),
            offload: self.keeper.offload_counts(),
            directories: self.seen(),
        })
    }

    fn summary(&self) -> String {
        let seen = self.seen();
        let Offload {
            waiting, failed, ..
        } = self.keeper.offload_counts();
        let mut out = format!(
            "node {} | memory {} | {} | offload waiting {waiting}, failed {failed}\n",
            self.tier.member(),
            self.tier.capacity(),
            status(self.is_in_touch(), &seen),
        );
        for Seen { facts, stats } in &seen {
            out += &format!(
                "{} | {} objects | {} live, {} dead of {} in {} files | written {}, {:.2} x payload | reads {}, damaged {}{} | {}\n",
                facts.name,
                stats.records,
                ByteCount(stats.live_bytes),
                ByteCount(stats.dead_bytes()),
                ByteCount(stats.capacity),
                stats.files,
                ByteCount(stats.device_bytes),
                stats.write_amplification(),
                stats.reads,
                stats.rotten,
                if stats.full { " | read-only" } else { "" },
                facts.engine,
            );
        }
        out
    }

    fn segment_names(&self) -> Vec<String> {
        let directories = self.facts.iter().map(|facts| facts.name.to_string());
        self.segments.iter().cloned().chain(directories).collect()
    }
}
