//! `cargo xtask ci`: the steps that every change must pass, each timed, with a table at the end.

mod deep;
mod steps;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// Arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Add the slow checks: miri, libFuzzer, the book, spelling, unused dependencies. Those whose tool is missing say so.
    #[arg(long)]
    deep: bool,
    /// Go on after a step has failed.
    #[arg(long)]
    keep_going: bool,
    /// Run only these steps (may be given several times).
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
}

/// One step.
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Result<Outcome>,
}

/// How a step ended, if it did not fail.
enum Outcome {
    Passed,
    /// Why there was nothing to run, or nothing to run it with.
    Skipped(String),
}

/// One row of the table at the end.
struct Row {
    name: &'static str,
    span: Duration,
    result: Result<Outcome>,
}

/// Runs the steps in order.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let steps = choose(args)?;
    let started = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    for step in &steps {
        eprintln!("\n=== {} ===", step.name);
        let step_started = Instant::now();
        let result = (step.run)(workspace);
        let row = Row {
            name: step.name,
            span: step_started.elapsed(),
            result,
        };
        eprintln!("--- {}", line(&row));
        let stops = row.result.is_err() && !args.keep_going;
        rows.push(row);
        if stops {
            break;
        }
    }
    println!("\n{}", table(&rows, steps.len(), started.elapsed()));
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| row.result.is_err())
        .map(|row| row.name)
        .collect();
    match failed.as_slice() {
        [] => Ok(()),
        names => bail!("ci: failed: {}", names.join(", ")),
    }
}

/// The steps of this run.
fn choose(args: &Args) -> Result<Vec<&'static Step>> {
    let all: Vec<&Step> = steps::STEPS.iter().chain(deep::STEPS).collect();
    if let Some(name) = args
        .only
        .iter()
        .find(|name| !all.iter().any(|step| step.name == **name))
    {
        let names: Vec<&str> = all.iter().map(|step| step.name).collect();
        bail!(
            "there is no step `{name}`; the steps are {}",
            names.join(", ")
        );
    }
    if !args.only.is_empty() {
        return Ok(all
            .into_iter()
            .filter(|step| args.only.iter().any(|name| name == step.name))
            .collect());
    }
    let deep: &[Step] = if args.deep { deep::STEPS } else { &[] };
    Ok(steps::STEPS.iter().chain(deep).collect())
}

fn line(row: &Row) -> String {
    let outcome = match &row.result {
        Ok(Outcome::Passed) => "passed".to_owned(),
        Ok(Outcome::Skipped(why)) => format!("SKIPPED: {why}"),
        Err(error) => format!("FAILED: {error:#}"),
    };
    format!(
        "{:<10} {:>7.1} s  {outcome}",
        row.name,
        row.span.as_secs_f64()
    )
}

fn table(rows: &[Row], step_count: usize, total: Duration) -> String {
    let mut text = "ci summary\n".to_owned();
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    if rows.len() < step_count {
        text.push_str(&format!("{} steps not run\n", step_count - rows.len()));
    }
    text.push_str(&format!("{:<10} {:>7.1} s", "total", total.as_secs_f64()));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::anyhow;

    use super::{Args, Outcome, Row, choose, table};

    fn args(only: &[&str]) -> Args {
        Args {
            deep: false,
            keep_going: false,
            only: only.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn steps_are_chosen_by_name() {
        let chosen = choose(&args(&["tidy", "fmt"])).expect("both exist");
        assert_eq!(
            chosen.iter().map(|step| step.name).collect::<Vec<_>>(),
            ["fmt", "tidy"]
        );
        assert!(choose(&args(&["lunch"])).is_err());
        let plain = choose(&args(&[])).expect("no name is wrong").len();
        let deep = choose(&Args {
            deep: true,
            ..args(&[])
        })
        .expect("no name is wrong")
        .len();
        assert!(deep > plain);
    }

    #[test]
    fn the_table_shows_every_outcome() {
        let row = |result| Row {
            name: "step",
            span: Duration::from_secs(1),
            result,
        };
        let rows = [
            row(Ok(Outcome::Passed)),
            row(Ok(Outcome::Skipped("why".to_owned()))),
            row(Err(anyhow!("broken"))),
        ];
        let text = table(&rows, 4, Duration::from_secs(3));
        for part in [
            "passed",
            "SKIPPED: why",
            "FAILED: broken",
            "1 steps not run",
            "3.0 s",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
