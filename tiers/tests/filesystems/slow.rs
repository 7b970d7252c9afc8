//! A disk that is slow, by a limit of the kernel's or by the tier's own write budget: nothing is wrong or lost, what waits is
//! bounded, reads are answered meanwhile, and what was acknowledged is there after the end.

use super::{
    rig::{Setup, append, child, folder, is_there, open_as},
    throttle::{Group, WRITTEN_BYTES_PER_SECOND},
};
use pollster::block_on;
use std::{path::Path, sync::Mutex, thread};
use ziggurat_base::{ByteCount, Code, ManualClock, Result, Ticket};
use ziggurat_engine::testkit::skip::skip;
use ziggurat_io::Choice;
use ziggurat_tiers::ssd::{BudgetStats, News, PATIENCE, WriteBudget};

/// Writers side by side; together their objects are more than the memory on the way to the disk.
const LANES: u64 = 8;

/// Objects that are there before the writers begin.
const BEFORE: u64 = 3;

const ENGINES: [Choice; 2] = [Choice::Uring, Choice::Threads];

#[test]
fn a_throttled_disk_keeps_every_promise() {
    const TEST: &str = "slow::a_throttled_disk_keeps_every_promise";
    if let Some(directory) = child() {
        for (number, engine) in ENGINES.into_iter().enumerate() {
            let directory = directory.join(number.to_string());
            std::fs::create_dir(&directory).unwrap();
            let (answers, _) = writes_and_reads(&directory, engine, None, 2);
            let failed = answers.iter().filter(|(_, answer)| answer.is_err());
            assert_eq!(failed.count(), 0, "slow is no reason to fail: {answers:?}");
        }
        return;
    }
    let folder = folder();
    match Group::on(folder.path()) {
        Ok(group) => {
            group.run(TEST, folder.path());
            let objects = ENGINES.len() as u64 * (BEFORE + 2 * LANES);
            let written = group.written();
            assert!(
                written >= objects * super::rig::LEN as u64,
                "{written} bytes went by the limit of {WRITTEN_BYTES_PER_SECOND} a second"
            );
        }
        Err(why) => skip("a_throttled_disk_keeps_every_promise", "throttle", &why),
    }
}

#[test]
fn a_tight_write_budget_keeps_every_promise() {
    // A burst of ten objects, then one in six seconds.
    let budget = WriteBudget::PerSecond(ByteCount(100_000));
    for engine in ENGINES {
        let folder = folder();
        let (answers, budget) = writes_and_reads(folder.path(), engine, Some(budget), 5);
        for (ticket, answer) in &answers {
            let refused = answer.as_ref().err().map(|error| error.code());
            assert!(
                matches!(refused, None | Some(Code::UnableOffloading)),
                "{ticket}: {answer:?}"
            );
        }
        // Time passes when somebody sleeps, and not else.
        assert!(budget.waits > 0 && budget.waited_bytes > 0, "{budget:?}");
        let owed = budget.rate * PATIENCE.as_secs() + ByteCount::mib(1).0;
        assert!(budget.used <= budget.allowed + owed, "{budget:?}");
    }
}

/// Writes `rounds` objects in each lane and reads all the time; answers how each write ended, and what the budget did.
fn writes_and_reads(
    directory: &Path,
    engine: Choice,
    write_budget: Option<WriteBudget>,
    rounds: u64,
) -> (Vec<(u64, Result<()>)>, BudgetStats) {
    let clock = ManualClock::default();
    let setup = Setup {
        engine,
        write_budget,
    };
    let (tier, _) = open_as(directory, &setup, &clock);
    for ticket in 1..=BEFORE {
        append(&tier, ticket).unwrap();
    }
    let answers: Mutex<Vec<(u64, Result<()>)>> = Mutex::default();
    thread::scope(|scope| {
        let (tier, answers) = (&tier, &answers);
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                scope.spawn(move || {
                    for round in 0..rounds {
                        let ticket = BEFORE + 1 + lane * rounds + round;
                        let answer = append(tier, ticket);
                        answers.lock().unwrap().push((ticket, answer));
                    }
                })
            })
            .collect();
        let mut reads = 0;
        while !lanes.iter().all(|lane| lane.is_finished()) {
            for ticket in 1..=BEFORE {
                assert!(
                    is_there(tier, ticket),
                    "object {ticket} while others are written"
                );
                reads += 1;
            }
        }
        assert!(reads > 0, "readers come before the last writer is done");
    });
    let answers = answers.into_inner().unwrap();
    let held = |answers: &[(u64, Result<()>)]| -> Vec<u64> {
        let good = answers.iter().filter(|(_, answer)| answer.is_ok());
        (1..=BEFORE)
            .chain(good.map(|(ticket, _)| *ticket))
            .collect()
    };
    let held = held(&answers);
    told_once(&tier.take_news(), &answers);
    block_on(tier.seal_all());
    let budget = tier.stats().budget;
    drop(tier);
    let (tier, recovered) = open_as(directory, &setup, &clock);
    assert_eq!(recovered.remarks, [""; 0]);
    assert_eq!(
        (recovered.torn, recovered.proved),
        (0, 0),
        "it was closed in good order"
    );
    assert_eq!(recovered.records, held.len() as u64);
    assert!(held.iter().all(|ticket| is_there(&tier, *ticket)));
    (answers, budget)
}

/// Each write is told as what its writer was answered.
fn told_once(news: &[News], answers: &[(u64, Result<()>)]) {
    for (ticket, answer) in answers {
        let ticket = Ticket(*ticket);
        let told: Vec<_> = news
            .iter()
            .filter_map(|one| match one {
                News::Present(told) => (*told == ticket).then_some(true),
                News::Refused { ticket: told, .. } => (*told == ticket).then_some(false),
                News::Gone { .. } => None,
            })
            .collect();
        assert_eq!(told, [answer.is_ok()], "{ticket}");
    }
}
