//! docs/config.md: every setting with its default.

use super::{groups::Settings, setting::Setting};
use std::fmt::Write as _;

const HEAD: &str = "# Configuration

A setting is given in a file, in the environment, or as a flag. A flag is stronger than the environment, the environment
is stronger than the file, and what nobody gives has its default. `ziggurat config` prints what is in force and who said
so; every fault is reported at once, with the line, variable or flag that it is in. A process that cannot begin because of
its settings ends with 2; so does one that cannot listen where it is told to, be it master, node or `serve`.

| | `lease` is written |
| --- | --- |
| file (TOML), named by `--config FILE` or `ZIGGURAT_CONFIG`; none is read unasked | `[partition]`, and below it `lease = \"10s\"` |
| environment | `ZIGGURAT_LEASE=10s`; an empty variable counts as absent |
| flag | `--lease 10s`; a switch may stand alone: `--populate` |

A size is a number with `B`, `KiB`, `MiB`, `GiB` or `TiB`; `K`, `KB` and so on mean the same powers of 1024. A time is a
number with `ns`, `us`, `ms`, `s`, `min` or `h`. A ratio is `0.9` or `90%`. A switch is `on` or `off`.

This page is made from `cli/src/config/groups.rs` by `cargo xtask doc --write`.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in Settings::groups() {
        write!(
            page,
            "\n## [{}]\n\n{}\n\n| setting | default | values | meaning |\n| --- | --- | --- | --- |\n",
            group.name, group.about
        )
        .expect("a string takes everything");
        for setting in &group.settings {
            page.push_str(&line(setting));
        }
    }
    page
}

fn line(setting: &Setting) -> String {
    let default = match &setting.default {
        Some(default) => format!("`{default}`"),
        None => "not set".to_owned(),
    };
    // A bar would end the cell.
    let name = setting.value_name.replace('|', ", ");
    let values = match &setting.bounds {
        Some(bounds) => format!("{name}, {bounds}"),
        None => name,
    };
    format!(
        "| `{}` | {default} | {values} | {} |\n",
        setting.name, setting.about
    )
}
