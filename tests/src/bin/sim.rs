//! Runs the simulator: `cargo xtask sim`, or this program for one seed with its story.
#![forbid(unsafe_code)]

use clap::Parser;
use serde_json::json;
use std::process::ExitCode;
use ziggurat_tests::sim::{
    Telling,
    batch::{Batch, Until, batch},
    run,
};

/// The simulator: seeded faults against the product's own code.
#[derive(Parser)]
#[command(name = "sim")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Print one JSON object on the last line of standard output.
    #[arg(long)]
    json: bool,
    /// Plant each known bug in turn, and succeed when all are caught.
    #[arg(long)]
    canary: bool,
    /// Plant this bug, for `--seed`: the name of a variant of `Canary`.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// Run this seed alone and tell its story.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from", "canary"])]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.plant
        && !planted::one(name)
    {
        eprintln!(
            "error: no bug {name:?} to plant: build with --features canary and name one of Canary's variants"
        );
        return ExitCode::from(2);
    }
    if let Some(seed) = arguments.seed {
        return story(seed);
    }
    if arguments.canary {
        return planted::all(arguments.from, arguments.json);
    }
    let seeds = arguments.from..arguments.from.saturating_add(arguments.seeds);
    let batch = batch(seeds, Until::End, |line| eprintln!("{line}"));
    report(&batch, arguments.json)
}

fn story(seed: u64) -> ExitCode {
    let outcome = run(seed, Telling::Story);
    for line in outcome.story.iter().flatten() {
        println!("{line}");
    }
    println!("{:#?}", outcome.answers);
    println!("{:?}", outcome.faults);
    println!("{} operations, trace {:016x}", outcome.ops, outcome.trace);
    for violation in &outcome.violations {
        println!("{violation:?}");
    }
    ExitCode::from(u8::from(!outcome.violations.is_empty()))
}

fn report(batch: &Batch, as_json: bool) -> ExitCode {
    let coverage = batch.coverage();
    for (seed, violation) in batch.violations.iter().take(20) {
        println!("seed {seed} breaks {}: {}", violation.rule, violation.what);
        println!("  replay: cargo xtask sim --from {seed} --seeds 1");
    }
    for impossible in &coverage.impossible {
        println!("declared unreachable, and reached: {impossible}");
    }
    let violations = batch.violations.len() + coverage.impossible.len();
    println!(
        "{} seeds, {} operations, {} faults, {} wrong bytes, {violations} violations, {:.1} s",
        batch.seeds,
        batch.ops,
        batch.faults.values().sum::<u64>(),
        batch.wrong_bytes,
        batch.seconds
    );
    println!(
        "{} of {} state x event cells; not seen: {:?}",
        coverage.visited, coverage.reachable, coverage.missed
    );
    if as_json {
        let object = json!({
            "seeds": batch.seeds,
            "ops": batch.ops,
            "faults": batch.faults,
            "states_seen": coverage.share(),
            "wrong_bytes": batch.wrong_bytes,
            "violations": violations,
            "seconds": batch.seconds,
        });
        println!("{object}");
    } else {
        println!("{:?}\n{:?}", batch.faults, batch.answers);
    }
    ExitCode::from(u8::from(violations > 0))
}

#[cfg(feature = "canary")]
mod planted {
    use serde_json::{Map, json};
    use std::process::ExitCode;
    use ziggurat_engine::canary::{Canary, plant};
    use ziggurat_tests::sim::canaries::canaries;

    /// Plants one bug by name.
    pub(super) fn one(name: &str) -> bool {
        let found = Canary::ALL.iter().find(|c| format!("{c:?}") == name);
        plant(found.copied());
        found.is_some()
    }

    /// Plants all, one after the other.
    pub(super) fn all(from: u64, as_json: bool) -> ExitCode {
        let caught = canaries(from, |line| eprintln!("{line}"));
        let count = caught.iter().filter(|c| c.seed.is_some()).count();
        let mut seeds = Map::new();
        for one in &caught {
            let name = format!("{:?}", one.canary);
            match one.seed {
                Some((seed, rule)) => println!("{name}: caught by {rule} at seed {seed}"),
                None => println!("{name}: NOT CAUGHT"),
            }
            seeds.insert(name, json!(one.seed.map(|(seed, _)| seed)));
        }
        let all = count == caught.len();
        if as_json {
            let planted = caught.len();
            let object =
                json!({"planted": planted, "caught_count": count, "caught": all, "seed": seeds});
            println!("{object}");
        }
        ExitCode::from(u8::from(!all))
    }
}

#[cfg(not(feature = "canary"))]
mod planted {
    use std::process::ExitCode;

    pub(super) fn one(_: &str) -> bool {
        false
    }

    pub(super) fn all(_: u64, _: bool) -> ExitCode {
        eprintln!(
            "error: this build has no bugs planted: use `cargo xtask sim --canary`, which builds with --features canary"
        );
        ExitCode::from(2)
    }
}
