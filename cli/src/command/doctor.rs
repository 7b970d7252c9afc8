//! `ziggurat doctor`: whether this machine is fit for what is configured.

use crate::{
    answer::{Answer, Exit},
    config::{Config, Everything, Flags},
    doctor::{Check, Machine, Verdict, examine},
    screen::Screen,
    table::{Paint, Table},
};
use serde_json::json;
use ziggurat_base::Result;

const EXAMPLES: &str = "\
Examples:
  ziggurat doctor
  ziggurat doctor --dram 64GiB --huge-pages --numa-node 0
  ziggurat doctor --config ziggurat.toml --json";

/// Check whether this machine is fit for the configuration
///
/// Looks at memory, huge pages, NUMA nodes, limits, kernel features, SSD directories, congestion control, ports, the
/// processor and the state directory, and says for each what to do. Leaves nothing behind. Exit code 1 when something would keep the
/// configuration from working.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    flags: Flags<Everything>,
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    let config = Config::load(&arguments.flags)?;
    config.remark_on(screen);
    let checks = examine(&Machine::this(), &config.settings);
    let count = |verdict| {
        checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .count()
    };
    let (good, odd, bad) = (
        count(Verdict::Ok),
        count(Verdict::Warn),
        count(Verdict::Fail),
    );
    let report = json!({"checks": checks, "ok": good, "warn": odd, "fail": bad});
    let mut text = table_of(&checks, screen);
    text.push_str(&format!("\n{good} ok, {odd} to look at, {bad} to mend\n"));
    let exit = if bad > 0 { Exit::Failed } else { Exit::Done };
    Ok(Answer::done(text, &report).ending(exit))
}

fn table_of(checks: &[Check], screen: &Screen) -> String {
    let mut table = Table::new(screen, ["", "check", "found"]);
    for check in checks {
        let (word, paint) = match check.verdict {
            Verdict::Ok => ("ok", Paint::Good),
            Verdict::Warn => ("warn", Paint::Warn),
            Verdict::Fail => ("FAIL", Paint::Bad),
        };
        let found = match &check.cure {
            Some(cure) => format!("{}\n-> {cure}", check.found),
            None => check.found.clone(),
        };
        table.row([
            (word.to_owned(), paint),
            (check.name.to_owned(), Paint::Plain),
            (found, Paint::Plain),
        ]);
    }
    table.text()
}
