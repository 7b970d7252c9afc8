//! What a seed decides before anything runs: sizes, spans, policies, weather.

use super::{disk::DiskParams, network::Weather, root::RootParams};
use std::time::Duration;
use ziggurat_base::{ByteCount, hash::Dice};
use ziggurat_engine::{
    catalog::{Config, OffloadMode, PromotionMode},
    evict::PolicyKind,
    journey::Patience,
    place::PlacementKind,
    space::AllocatorKind,
};

/// Nodes of every world.
pub(crate) const NODES: usize = 3;

/// Clients of every world.
pub(crate) const CLIENTS: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) seed: u64,
    /// Operations of clients before faults stop.
    pub(crate) ops: u64,
    /// Faults that are planned; those of single messages come on top.
    pub(crate) faults: u64,
    /// Tasks of each client that run journeys.
    pub(crate) lanes: usize,
    /// Keys of the working set.
    pub(crate) keys: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) segments_per_node: usize,
    pub(crate) replicas_max: u64,
    pub(crate) config: Config,
    pub(crate) weather: Weather,
    pub(crate) patience: Patience,
    /// How long a caller waits for the master.
    pub(crate) rpc_deadline: Duration,
    /// How long a caller waits for a node.
    pub(crate) data_deadline: Duration,
    /// Payload bytes in one data message, a multiple of 64 KiB.
    pub(crate) stripe: u64,
    /// The longest pause of a client between two operations.
    pub(crate) think: Duration,
    /// The catalog's invariants are checked after every so many calls.
    pub(crate) check_every: u64,
    /// The SSD directory of each node; most worlds have none.
    pub(crate) disk: Option<DiskParams>,
    /// A root of shard files that everybody has mounted; only where the master keeps records.
    pub(crate) root: Option<RootParams>,
}

const PLACEMENTS: [PlacementKind; 2] = [PlacementKind::Random, PlacementKind::FreeRatioFirst];

/// Of so many worlds one has SSD directories.
const DISKS_ONE_IN: u64 = 5;

/// Mean of [`len`], measured; see the test.
const LEN_MEAN: u64 = 18_000;

/// Bytes of a payload: many small ones, some of several chunks, some empty.
pub(crate) fn len(dice: &mut Dice) -> u64 {
    match dice.below(100) {
        0..6 => 0,
        6..12 => dice.below(8) + 1,
        12..36 => 8 + dice.below(56),
        36..66 => 65 + dice.below(4032),
        66..86 => 4096 + dice.below(28 << 10),
        86..92 => (32 << 10) + dice.below((32 << 10) + 1),
        92..94 => (64 << 10) * (1 + dice.below(3)),
        _ => (64 << 10) + 1 + dice.below(136 << 10),
    }
}

fn millis(dice: &mut Dice, from: u64, to: u64) -> Duration {
    Duration::from_micros(from * 1000 + dice.below((to - from) * 1000 + 1))
}

/// The disks and the shared root of a seed, and how objects come to them. Dice of their own: worlds without disks are as if there were none.
fn disks(seed: u64) -> (Option<DiskParams>, Option<RootParams>, Config) {
    let dice = &mut Dice::new(seed ^ 0x0d15_c0b1);
    let has_disks = dice.below(DISKS_ONE_IN) == 0;
    let mut disk = has_disks.then(|| DiskParams::rolled(dice));
    let modes = [OffloadMode::Eager, OffloadMode::Eager, OffloadMode::OnEvict];
    let promotions = [
        PromotionMode::Off,
        PromotionMode::FirstHit,
        PromotionMode::SecondHit,
        PromotionMode::SecondHit,
    ];
    let root = RootParams::rolled(seed).filter(|_| has_disks);
    let offloading = Config {
        dfs_cooling: root.as_ref().map_or(Duration::ZERO, |root| root.cooling),
        offload: modes[dice.below(3) as usize],
        offload_share: [0.3, 0.5, 1.0][dice.below(3) as usize],
        offload_patience: millis(dice, 100, 3000),
        promotion: promotions[dice.below(4) as usize],
        promotion_window: millis(dice, 50, 2000),
        promotion_budget: ByteCount([16, 256, 65_536][dice.below(3) as usize] << 10),
        ..Config::default()
    };
    if let Some(disk) = &mut disk {
        disk.reoffers = dice.below(3) > 0;
    }
    (disk, root, offloading)
}

impl Params {
    /// Rolls the parameters of a seed.
    pub(crate) fn rolled(seed: u64) -> Self {
        let dice = &mut Dice::new(seed ^ 0x51ed_270b);
        // Some worlds have spans as short as a slow message, some have a handful of keys that all fight for.
        let (hasty, narrow) = (dice.below(4) == 0, dice.below(4) == 0);
        let (lease, discard, release) = if hasty {
            (
                millis(dice, 10, 80),
                millis(dice, 15, 100),
                millis(dice, 20, 200),
            )
        } else {
            (
                millis(dice, 80, 900),
                millis(dice, 120, 900),
                millis(dice, 200, 1500),
            )
        };
        let (disk, root, offloading) = disks(seed);
        let config = Config {
            lease,
            write_discard: discard,
            write_release: discard + release,
            member_ttl: millis(dice, 600, 1800),
            high_watermark: [1.0, 1.0, 0.9, 0.6][dice.below(4) as usize],
            evict_ratio: [0.05, 0.2][dice.below(2) as usize],
            policy: PolicyKind::ALL[dice.below(PolicyKind::ALL.len() as u64) as usize],
            placement: PLACEMENTS[dice.below(2) as usize],
            allocator: AllocatorKind::Offset,
            seed,
            paranoid: false,
            ..offloading
        };
        let segments_per_node = 1 + dice.below(2) as usize;
        let node_bytes = (256 << 10) + 4096 * dice.below(64);
        let segment_bytes = node_bytes / segments_per_node as u64 / 64 * 64;
        let weather = Weather {
            usual: Duration::from_micros(50 + dice.below(400)),
            longest: (lease.max(discard) * 2).max(Duration::from_millis(60)),
            tail_permille: dice.below(8),
            loss_permille: dice.below(6),
            twice_permille: 5 + dice.below(30),
            flip_per_100k: dice.below(200),
        };
        Self {
            seed,
            ops: 2_050,
            faults: 60,
            lanes: 1 + dice.below(4) as usize,
            keys: if narrow {
                3 + dice.below(14)
            } else {
                3 * node_bytes * NODES as u64 / LEN_MEAN
            },
            segment_bytes,
            segments_per_node,
            replicas_max: 1 + dice.below(3),
            config,
            weather,
            patience: Patience {
                room: millis(dice, 20, 200),
                pause_max: Duration::from_millis(20),
                relocations: dice.below(4) as u32,
                stretch: (64 << 10) << dice.below(3),
            },
            rpc_deadline: lease + millis(dice, 50, 500),
            data_deadline: lease.max(discard) * (1 + dice.below(3) as u32),
            stripe: (64 << 10) << dice.below(3),
            think: millis(dice, 1, 12),
            check_every: if seed.is_multiple_of(8) { 1 } else { 16 },
            disk,
            root,
        }
    }
}

impl Params {
    /// Whether there is a limit of what nodes write to their directories over time.
    pub(crate) fn has_write_budget(&self) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| disk.options.write_budget.is_some())
    }

    /// Whether nodes offer what lies in their memory to the next master.
    pub(crate) fn reoffers(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.reoffers)
    }
}

#[cfg(test)]
mod tests {
    use super::{LEN_MEAN, len};
    use ziggurat_base::hash::Dice;

    #[test]
    fn lengths_have_the_documented_mean() {
        let dice = &mut Dice::new(1);
        let mean = (0..100_000).map(|_| len(dice)).sum::<u64>() / 100_000;
        assert!(
            (LEN_MEAN * 9 / 10..LEN_MEAN * 11 / 10).contains(&mean),
            "{mean}"
        );
    }
}
