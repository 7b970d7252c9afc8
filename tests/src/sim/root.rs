//! A root of shard files on a filesystem that every process of a world has mounted: what goes wrong on it, and how each
//! process opens it.

use super::{
    clock::SimClock,
    disk::Mood,
    world::{Process, Sim},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use ziggurat_base::{Clock as _, hash::Dice};
use ziggurat_dfs::{Layout, Root};
use ziggurat_io::{
    Geometry, Pool,
    mem::{MemDisk, MemOptions},
};

/// What a world decides of its root.
#[derive(Clone, Debug)]
pub(crate) struct RootParams {
    /// How long freed space is kept.
    pub(crate) cooling: Duration,
    pub(crate) shards: u32,
    shard_bytes: u64,
    /// Requests in ten thousand that fail and say so.
    errors: u64,
    /// Writes in ten thousand that go wrong without a word.
    lies: u64,
}

/// Memory for what is on its way to and from the root.
const STAGING: u64 = 8 << 20;

/// Of so many worlds with disks one has no root.
const ROOTLESS_ONE_IN: u64 = 3;

/// The pause after the root could not be opened.
const PAUSE: Duration = Duration::from_millis(20);

impl RootParams {
    /// Rolls with dice of their own, so that what else a seed decides does not depend on it.
    pub(crate) fn rolled(seed: u64) -> Option<Self> {
        let dice = &mut Dice::new(seed ^ 0x5a5a_0d5f);
        if dice.below(ROOTLESS_ONE_IN) == 0 {
            return None;
        }
        let mut pick = |list: &[u64]| list[dice.below(list.len() as u64) as usize];
        Some(Self {
            cooling: Duration::from_millis(pick(&[40, 300, 3_000])),
            shards: pick(&[1, 2, 4]) as u32,
            shard_bytes: pick(&[512, 1024, 2048]) << 10,
            errors: pick(&[0, 0, 5, 30]),
            lies: pick(&[0, 0, 20]),
        })
    }
}

/// See the module.
#[derive(Clone)]
pub(crate) struct SharedRoot {
    disk: MemDisk,
    mood: Arc<Mutex<Mood>>,
}

impl SharedRoot {
    /// A root that is whole.
    pub(crate) fn new(sim: &Sim, params: &RootParams, dice: &mut Dice) -> Self {
        let rate = sim.with(|world| world.rate(Process::Auditor));
        let clock = SimClock {
            sim: sim.clone(),
            rate,
        };
        let pool = Pool::new(STAGING).expect("the machine has memory for a simulated disk");
        let options = MemOptions {
            geometry: Geometry {
                memory: 512,
                block: 4096,
                direct: true,
            },
            capacity: 1 << 40,
            clock: Some(Arc::new(clock)),
        };
        let disk = MemDisk::new(&pool, options);
        let layout = Layout {
            cluster: "sim".into(),
            shard_bytes: params.shard_bytes,
            alignment: 4096,
            shards: params.shards,
        };
        let made = Root::format(Arc::new(disk.clone()), &layout, dice.roll().into());
        pollster::block_on(made).expect("an empty disk without faults");
        let mood = Mood::new(dice, params.errors, params.lies);
        let root = Self {
            disk,
            mood: Arc::new(Mutex::new(mood)),
        };
        let mood = root.mood.clone();
        root.disk.set_hook(move |attempt| {
            let mut mood = mood.lock().unwrap_or_else(PoisonError::into_inner);
            mood.judge(attempt)
        });
        root
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every request takes so many times as long.
    pub(crate) fn slow_down(&self, slowness: u32) {
        self.mood().slow_down(slowness);
    }

    /// Faults stop.
    pub(crate) fn calm(&self) {
        self.mood().calm();
    }

    /// What went wrong, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.mood().counts()
    }
}

/// Opens the root for a process; `None` in a world without one.
pub(crate) async fn open(sim: &Sim, clock: &SimClock) -> Option<Root> {
    let (root, carrier) = sim.with(|world| Some((world.root.clone()?, world.dice.roll())))?;
    loop {
        let opening = Root::open(Arc::new(root.disk.clone()), Some("sim"), carrier);
        match opening.await {
            Ok(opened) => return Some(opened),
            Err(error) => {
                sim.with(|world| {
                    world
                        .outcome
                        .tell(|| format!("a process cannot open the root: {error}"));
                });
                let until = clock.now().after(PAUSE);
                clock.sleep_until(until).await;
            }
        }
    }
}
