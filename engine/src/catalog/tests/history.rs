//! Random histories against a model of what must be readable, with every invariant checked after every call.

use super::Rig;
use crate::{
    catalog::Config,
    command::{Force, PutAnswer, PutEnd, PutGrant, Wish, Written},
};
use std::{collections::BTreeMap, time::Duration};
use ziggurat_base::{Crc32, Ticket, hash::Dice};

const LENS: [u64; 6] = [0, 17, 5000, 65_536, 70_000, 300_000];

struct History {
    rig: Rig,
    dice: Dice,
    open: Vec<(String, PutGrant)>,
    newest: BTreeMap<String, Ticket>,
}

impl History {
    fn new(seed: u64) -> Self {
        let config = Config {
            lease: Duration::from_millis(200),
            write_discard: Duration::from_millis(500),
            write_release: Duration::from_millis(2000),
            seed,
            ..Config::default()
        };
        Self {
            rig: Rig::new(config, &[600_000, 900_000]),
            dice: Dice::new(seed),
            open: Vec::new(),
            newest: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        let text = format!("key{}", self.dice.below(60));
        match self.dice.below(12) {
            0..4 => self.start(text),
            4..6 if !self.open.is_empty() => self.end(),
            6 if !self.open.is_empty() => {
                let (_, grant) = self.open.swap_remove(0);
                self.rig.catalog.revoke(&[grant.ticket]);
            }
            7..9 => self.locate(&text),
            9 => self.remove(&text),
            10 => {
                self.rig.exist(&text);
                if self.dice.below(3) == 0 {
                    self.rig.fence_all();
                }
            }
            _ => {
                let ms = self.dice.below(150);
                self.rig.pass(ms);
            }
        }
    }

    fn start(&mut self, text: String) {
        let len = LENS[self.dice.below(6) as usize];
        let wish = Wish {
            replicas: 1 + self.dice.below(2) as u8,
            ..Wish::default()
        };
        if let Ok(PutAnswer::Granted(grant)) = self.rig.start_wish(&text, len, &wish) {
            self.open.push((text, grant));
        }
    }

    /// Reports on a random open write, each replica good, failed or not known yet.
    fn end(&mut self) {
        let index = self.dice.below(self.open.len() as u64) as usize;
        let (text, grant) = self.open.swap_remove(index);
        let results = grant.targets.as_slice().iter();
        let results: Vec<_> = results
            .map(|_| [Some(true), Some(false), None][self.dice.below(3) as usize])
            .collect();
        let more = results.contains(&None);
        let end = PutEnd {
            ticket: grant.ticket,
            crc: Crc32(9),
            written: Written::Each(results),
        };
        let done = self.rig.catalog.put_end(self.rig.now, &[end]).remove(0);
        if done.is_ok_and(|done| done.replicas > 0) {
            self.newest.insert(text.clone(), grant.ticket);
        }
        if more {
            self.open.push((text, grant));
        }
    }

    fn locate(&mut self, text: &str) {
        let Ok(Some(grant)) = self.rig.locate(text) else {
            return;
        };
        assert_eq!(
            Some(&grant.ticket),
            self.newest.get(text),
            "{text} has another version"
        );
        if self.dice.below(2) == 0 {
            self.rig.catalog.give_back(self.rig.now, &[grant.hold]);
        }
    }

    fn remove(&mut self, text: &str) {
        let force = [Force::Yes, Force::No][self.dice.below(2) as usize];
        if self.rig.remove(text, force).is_ok() {
            self.newest.remove(text);
        }
    }
}

#[test]
fn a_random_history_agrees_with_the_model() {
    for seed in 0..12 {
        let mut history = History::new(seed);
        for _ in 0..1500 {
            history.step();
        }
    }
}
