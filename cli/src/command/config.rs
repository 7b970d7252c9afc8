//! `ziggurat config`: what is in force, and who said so.

use crate::{
    answer::Answer,
    config::{self, Config, Everything, Flags, Origin, Row},
    screen::Screen,
    table::{Paint, Table},
};
use serde_json::{Value, json};
use ziggurat_base::Result;

const EXAMPLES: &str = "\
Examples:
  ziggurat config
  ziggurat config --config ziggurat.toml --lease 5s
  ZIGGURAT_DRAM=64GiB ziggurat config --json";

/// Print every setting that is in force, and where it came from
///
/// Reads the configuration file, the environment and the flags as every other command would, and prints the outcome:
/// a flag is stronger than the environment, the environment is stronger than the file. All faults are reported at once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print the reference of all settings as Markdown instead
    #[arg(long)]
    markdown: bool,

    #[command(flatten)]
    flags: Flags<Everything>,
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    if arguments.markdown {
        let page = config::page();
        return Ok(Answer::done(page.clone(), &json!({"markdown": page})));
    }
    let config = Config::load(&arguments.flags)?;
    config.remark_on(screen);
    let rows = config.rows();
    let report = json!({
        "file": config.file.as_ref().map(|path| path.display().to_string()),
        "settings": rows.iter().map(row_json).collect::<Vec<_>>(),
        "remarks": config.remarks,
    });
    Ok(Answer::done(table_of(&rows, screen), &report))
}

fn row_json(row: &Row) -> Value {
    let at = (row.origin != Origin::Default).then(|| row.origin.to_string());
    json!({
        "group": row.group,
        "name": row.setting.name,
        "value": row.value,
        "default": row.setting.default,
        "from": row.origin.kind(),
        "at": at,
    })
}

fn table_of(rows: &[Row], screen: &Screen) -> String {
    let mut table = Table::new(screen, ["group", "setting", "value", "from"]);
    for row in rows {
        let paint = match row.origin {
            Origin::Default => Paint::Dim,
            _ => Paint::Strong,
        };
        let value = row.value.as_deref().unwrap_or("-");
        table.row([
            (row.group.to_owned(), Paint::Dim),
            (row.setting.name.clone(), Paint::Plain),
            (value.to_owned(), paint),
            (row.origin.to_string(), paint),
        ]);
    }
    table.text()
}
