//! `ziggurat dfs`: roots of shard files on a shared filesystem.

use super::faults::{Row, listed};
use crate::{
    answer::{Answer, Exit},
    progress,
    screen::Screen,
    table::{Paint, Table},
};
use clap::Subcommand;
use indicatif::ProgressBar;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_store::dfs::{
    Layout, ScanCounts,
    offline::{Directory, Logs, Report, ShardReport, write_index},
};

const EXAMPLES: &str = "\
Examples:
  ziggurat dfs format /mnt/shared/kv --shards 64 --shard-size 4GiB
  ziggurat dfs inspect /mnt/shared/kv
  ziggurat dfs verify /mnt/shared/kv --json
  ziggurat dfs recover /mnt/shared/kv --index /tmp/kv.index
  ziggurat dfs grow /mnt/shared/kv --shards 128";

/// Make roots on a shared filesystem, look into them, prove and recover them
///
/// Works without a master and without a node. `inspect` and `verify` change nothing; what others write meanwhile may look
/// half-done to them. docs/formats/dfs.md says what lies there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a root of an empty directory, or go on where that was interrupted
    Format {
        /// The directory, mounted by everybody who is to use it
        root: PathBuf,
        /// Whose it is: a cluster refuses the root of another one
        #[arg(long, value_name = "NAME", default_value = ziggurat_store::dfs::CLUSTER)]
        cluster: String,
        /// How many shard files: about one for each writer at a time
        #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=9999))]
        shards: u32,
        /// Size of each, allocated at once
        #[arg(long, value_name = "SIZE", default_value = "1GiB")]
        shard_size: ByteCount,
        /// Objects begin on multiples of this: a power of two from 4KiB to 1MiB
        #[arg(long, value_name = "SIZE", default_value = "4KiB")]
        alignment: ByteCount,
    },
    /// Tell what it holds: shard files, tenants, removals, by headers alone
    Inspect {
        /// The root
        root: PathBuf,
    },
    /// Read and prove every payload; exit code 1 when something is damaged or overlaps
    Verify {
        /// The root
        root: PathBuf,
    },
    /// Find out from the headers alone what it holds, and write that into an index
    Recover {
        /// The root
        root: PathBuf,
        /// Write the index here; without it to index.zig in the root
        #[arg(long, value_name = "FILE")]
        index: Option<PathBuf>,
        /// Put one short removal log in the place of all: only while no process uses the root
        #[arg(long)]
        compact: bool,
    },
    /// Add shard files, also while the root is in use
    Grow {
        /// The root
        root: PathBuf,
        /// How many there are to be then
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=9999))]
        shards: u32,
    },
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    match &arguments.what {
        What::Format {
            root,
            cluster,
            shards,
            shard_size,
            alignment,
        } => {
            let alignment = u32::try_from(alignment.0).map_err(|_| {
                let what = format!("--alignment {alignment} is too much: 1MiB at most");
                Error::new(Code::InvalidParams, what)
            })?;
            let layout = Layout {
                cluster: cluster.clone(),
                shard_bytes: shard_size.0,
                alignment,
                shards: *shards,
            };
            format(root, &layout)
        }
        What::Inspect { root } => inspect(root, screen),
        What::Verify { root } => verify(root, screen),
        What::Recover {
            root,
            index,
            compact,
        } => {
            let logs = if *compact { Logs::Compact } else { Logs::Keep };
            recover(root, index.as_deref(), logs, screen)
        }
        What::Grow { root, shards } => grow(root, *shards),
    }
}

fn size(bytes: u64) -> String {
    ByteCount(bytes).to_string()
}

/// Shows a bar while `work` is done.
fn with_bar<T>(
    what: &'static str,
    work: impl FnOnce(&mut (dyn FnMut(u64, u64) + Send)) -> Result<T>,
) -> Result<T> {
    let bar = progress::bytes(what);
    let mut tell = |done, total| show(&bar, done, total);
    let result = work(&mut tell);
    bar.finish_and_clear();
    result
}

fn show(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
}

fn format(path: &Path, layout: &Layout) -> Result<Answer> {
    let root = Directory::to_change(path)?.format(layout)?;
    let capacity: u64 = root.shards().iter().map(|shard| shard.capacity).sum();
    let id = format!("{:032x}", root.id());
    let text = format!(
        "root {id} of cluster {}: {} shard files of {}, {} for objects\n",
        layout.cluster,
        layout.shards,
        size(layout.shard_bytes),
        size(capacity)
    );
    let json = json!({
        "root": id, "cluster": layout.cluster, "shards": layout.shards, "shard_bytes": layout.shard_bytes,
        "alignment": layout.alignment, "capacity": capacity,
    });
    Ok(Answer::done(text, &json))
}

fn grow(path: &Path, shards: u32) -> Result<Answer> {
    let grown = Directory::to_change(path)?.grow(shards)?;
    let text = format!(
        "{} shard files before, {} now; who has the root open sees them when it looks again\n",
        grown.before, grown.after
    );
    let json = json!({"before": grown.before, "shards": grown.after});
    Ok(Answer::done(text, &json))
}

fn inspect(path: &Path, screen: &Screen) -> Result<Answer> {
    let directory = Directory::to_read(path)?;
    let report = with_bar("inspect", |progress| directory.inspect(progress))?;
    report.doubts.iter().for_each(|doubt| screen.warn(doubt));
    let mut counts = ScanCounts::default();
    report.shards.iter().for_each(|one| counts.add(&one.counts));
    let (objects, bytes) = report
        .tenants
        .values()
        .fold((0, 0), |sum, tenant| (sum.0 + tenant.0, sum.1 + tenant.1));
    let Report { root, layout, .. } = &report;
    let mut text = format!(
        "root {root:032x} of cluster {}: {objects} objects, {}, {} removals noted\n\n{}",
        layout.cluster,
        size(bytes),
        report.removals,
        shards_table(&report.shards, screen).text()
    );
    if report.tenants.len() > 1 {
        let mut tenants = Table::new(screen, ["tenant", "objects", "bytes"]);
        for (name, (objects, bytes)) in &report.tenants {
            tenants.row([
                (name.to_string(), Paint::Plain),
                (objects.to_string(), Paint::Plain),
                (size(*bytes), Paint::Plain),
            ]);
        }
        text += &format!("\n{}", tenants.text());
    }
    if !report.foreign.is_empty() {
        text += &format!("\nnot of the store: {}\n", report.foreign.join(", "));
    }
    let shards = report.shards.iter().map(|shard| {
        json!({
            "name": shard.name, "directory": shard.info.map(|info| info.directory.to_string()),
            "era": shard.info.map(|info| info.era.0), "capacity": shard.info.map(|info| info.capacity),
            "objects": shard.counts.found, "bytes": shard.bytes, "removed": shard.counts.removed,
            "damaged": shard.counts.damaged, "unreadable": shard.counts.unreadable, "trouble": shard.trouble,
        })
    });
    let tenants = report.tenants.iter().map(|(name, (objects, bytes))| {
        let counts = json!({"objects": objects, "bytes": bytes});
        (name.to_string(), counts)
    });
    let json = json!({
        "root": format!("{root:032x}"), "cluster": layout.cluster, "shard_bytes": layout.shard_bytes,
        "alignment": layout.alignment, "objects": objects, "bytes": bytes, "damaged": counts.damaged,
        "removals": report.removals, "shards": shards.collect::<Vec<_>>(),
        "tenants": tenants.collect::<serde_json::Map<_, _>>(), "foreign": report.foreign, "doubts": report.doubts,
    });
    Ok(Answer::done(text, &json))
}

fn shards_table(shards: &[ShardReport], screen: &Screen) -> Table {
    let headings = ["file", "era", "state", "objects", "used", "free", "removed"];
    let mut table = Table::new(screen, headings);
    for shard in shards {
        let (state, paint) = match &shard.trouble {
            Some(trouble) => (trouble.as_str(), Paint::Bad),
            None => ("good", Paint::Plain),
        };
        let capacity = shard.info.map_or(0, |info| info.capacity);
        let era = shard.info.map_or(0, |info| info.era.0);
        table.row([
            (shard.name.clone(), Paint::Plain),
            (era.to_string(), Paint::Dim),
            (state.to_owned(), paint),
            (shard.counts.found.to_string(), Paint::Plain),
            (size(shard.bytes), Paint::Plain),
            (size(capacity.saturating_sub(shard.bytes)), Paint::Dim),
            (shard.counts.removed.to_string(), Paint::Dim),
        ]);
    }
    table
}

fn verify(path: &Path, screen: &Screen) -> Result<Answer> {
    let directory = Directory::to_read(path)?;
    let began = Instant::now();
    let found = with_bar("verify", |progress| directory.verify(progress))?;
    let seconds = began.elapsed().as_secs_f64();
    let rows = found.faults.iter().map(|fault| Row {
        file: &fault.file,
        offset: fault.offset,
        object: fault.object.as_ref(),
        what: &fault.what,
    });
    let (table, rows) = listed(rows, screen);
    let json = json!({
        "shards": found.shards, "objects": found.objects, "bytes": found.bytes, "overlaps": found.overlaps,
        "corrupt": found.corrupt, "torn": found.torn, "faults": rows, "seconds": seconds,
    });
    if found.torn > 0 {
        screen.note(format_args!(
            "{} headers are not whole: their writes were interrupted, or they have rotten; they are no objects",
            found.torn
        ));
    }
    let proved = format!(
        "{} objects in {} shard files, {} of payload read in {seconds:.1} s",
        found.objects,
        found.shards,
        size(found.bytes)
    );
    if found.faults.is_empty() {
        return Ok(Answer::done(format!("{proved}: no fault\n"), &json));
    }
    let text = format!(
        "{}\n{proved}: {} corrupt, {} overlaps, {} faults in all. No reader believes any of these bytes.\n",
        table.text(),
        found.corrupt,
        found.overlaps,
        found.faults.len()
    );
    Ok(Answer::done(text, &json).ending(Exit::Failed))
}

fn recover(path: &Path, file: Option<&Path>, logs: Logs, screen: &Screen) -> Result<Answer> {
    let directory = match (file, logs) {
        (Some(_), Logs::Keep) => Directory::to_read(path)?,
        _ => Directory::to_change(path)?,
    };
    let began = Instant::now();
    let found = with_bar("recover", |progress| directory.recover(logs, progress))?;
    let written = match file {
        Some(file) => {
            write_index(file, &found.index)?;
            file.display().to_string()
        }
        None => directory.save_index(&found.index)?.display().to_string(),
    };
    let seconds = began.elapsed().as_secs_f64();
    found.remarks.iter().for_each(|remark| screen.warn(remark));
    if found.unproven > 0 {
        screen.warn(format_args!(
            "{} records may have been removed and are not in the index: mend what is told above and run it again",
            found.unproven
        ));
    }
    let text = format!(
        "{} objects in {written} after {seconds:.1} s; {} records of older versions, {} removed, {} damaged, {} unproven\n",
        found.objects, found.stale, found.removed, found.corrupt, found.unproven
    );
    let json = json!({
        "objects": found.objects, "records": found.index.entries.len(), "stale": found.stale,
        "removed": found.removed, "corrupt": found.corrupt, "unproven": found.unproven,
        "forgotten": found.forgotten, "index": written, "remarks": found.remarks, "seconds": seconds,
    });
    Ok(Answer::done(text, &json))
}
