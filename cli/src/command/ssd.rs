//! `ziggurat ssd`: looking into a directory that no process serves.

use super::faults::{Row, listed};
use crate::{
    answer::{Answer, Exit},
    progress,
    screen::Screen,
    table::{Paint, Table},
};
use clap::Subcommand;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use ziggurat_base::{ByteCount, Clock, Code, Error, Result};
use ziggurat_store::{
    Codec, Placed, Stored, SystemClock,
    offline::{Archive, gc},
};

const EXAMPLES: &str = "\
Examples:
  ziggurat ssd inspect /mnt/nvme0
  ziggurat ssd verify /mnt/nvme0 --json
  ziggurat ssd dump /mnt/nvme0 --limit 20
  ziggurat ssd dump /mnt/nvme0 --key greeting --output hello.txt
  ziggurat ssd gc /mnt/nvme0";

/// Look into an SSD directory, prove it, clear it up
///
/// Works without a master and without a node: the node that serves the directory must be stopped. Only `gc` changes
/// anything. docs/formats/ssd-log.md says what lies there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tell what it holds: identity, files, tenants, space; payloads are not read
    Inspect {
        /// The directory, as given with --ssd
        dir: PathBuf,
    },
    /// Read and prove every header, payload and footer; exit code 1 when one is damaged
    Verify {
        /// The directory, as given with --ssd
        dir: PathBuf,
    },
    /// List the objects, or write the value of one
    Dump {
        /// The directory, as given with --ssd
        dir: PathBuf,
        /// Only this key
        #[arg(long)]
        key: Option<String>,
        /// Only this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Write the value of the key to this file, or to standard output for -
        #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "limit")]
        output: Option<PathBuf>,
        /// At most so many
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
    },
    /// Give the space of dead records back
    Gc {
        /// The directory, as given with --ssd
        dir: PathBuf,
    },
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    match &arguments.what {
        What::Inspect { dir } => inspect(dir, screen),
        What::Verify { dir } => verify(dir, screen),
        What::Dump {
            dir,
            key,
            tenant,
            output,
            limit,
        } => {
            let archive = Archive::open(dir)?;
            let mut records = archive.records()?;
            records.retain(|(_, record)| {
                let has_key = |key: &String| record.key.as_key().bytes() == key.as_bytes();
                let has_tenant = |tenant: &String| *record.tenant == **tenant;
                key.as_ref().is_none_or(has_key) && tenant.as_ref().is_none_or(has_tenant)
            });
            match (key, output) {
                (Some(key), Some(output)) => write_value(&archive, &records, key, output),
                _ => Ok(list(&records, *limit, screen)),
            }
        }
        What::Gc { dir } => clear_up(dir, screen),
    }
}

fn size(bytes: u64) -> String {
    ByteCount(bytes).to_string()
}

fn inspect(dir: &Path, screen: &Screen) -> Result<Answer> {
    let report = Archive::open(dir)?.inspect()?;
    let mut table = Table::new(screen, ["file", "size", "state", "live", "bytes", "dead"]);
    for file in &report.files {
        let (state, paint) = match (&file.trouble, file.sealed) {
            (Some(trouble), _) => (trouble.as_str(), Paint::Bad),
            (None, true) => ("sealed", Paint::Plain),
            (None, false) => ("open", Paint::Plain),
        };
        table.row([
            (file.name.clone(), Paint::Plain),
            (size(file.len), Paint::Dim),
            (state.to_owned(), paint),
            (file.live.to_string(), Paint::Plain),
            (size(file.live_bytes), Paint::Plain),
            (file.dead.to_string(), Paint::Dim),
        ]);
    }
    let (objects, bytes) = report
        .tenants
        .values()
        .fold((0, 0), |sum, tenant| (sum.0 + tenant.0, sum.1 + tenant.1));
    let mut text = format!(
        "directory {}: {objects} objects, {}, {} tombstones\n\n{}",
        report.directory,
        size(bytes),
        report.tombstones,
        table.text()
    );
    text += &codecs_text(&report.codecs, screen);
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
    let files = report.files.iter().map(|file| {
        json!({
            "name": file.name, "len": file.len, "sealed": file.sealed, "live": file.live,
            "live_bytes": file.live_bytes, "dead": file.dead, "trouble": file.trouble,
        })
    });
    let tenants = report.tenants.iter().map(|(name, (objects, bytes))| {
        let counts = json!({"objects": objects, "bytes": bytes});
        (name.to_string(), counts)
    });
    let json = json!({
        "codecs": codecs_json(&report.codecs),
        "directory": report.directory.to_string(), "objects": objects, "bytes": bytes,
        "tombstones": report.tombstones, "files": files.collect::<Vec<_>>(),
        "tenants": tenants.collect::<serde_json::Map<_, _>>(), "foreign": report.foreign,
    });
    Ok(Answer::done(text, &json))
}

/// How much is stored in which way, where anything is compressed.
fn codecs_text(stored: &BTreeMap<Codec, Stored>, screen: &Screen) -> String {
    if stored.keys().all(|codec| *codec == Codec::Plain) {
        return String::new();
    }
    let mut codecs = Table::new(screen, ["codec", "objects", "bytes", "on disk"]);
    for (codec, stored) in stored {
        codecs.row([
            (codec.to_string(), Paint::Plain),
            (stored.records.to_string(), Paint::Plain),
            (size(stored.len), Paint::Plain),
            (size(stored.stored_len), Paint::Plain),
        ]);
    }
    format!("\n{}", codecs.text())
}

fn codecs_json(stored: &BTreeMap<Codec, Stored>) -> Value {
    let codecs = stored.iter().map(|(codec, stored)| {
        let counts = json!({
            "objects": stored.records, "bytes": stored.len, "stored_bytes": stored.stored_len,
        });
        (codec.to_string(), counts)
    });
    codecs.collect::<serde_json::Map<_, _>>().into()
}

fn verify(dir: &Path, screen: &Screen) -> Result<Answer> {
    let archive = Archive::open(dir)?;
    let bar = progress::bytes("verify");
    let (began, mut read) = (Instant::now(), 0);
    let faults = archive.verify(&mut |done, total| {
        read = done;
        bar.set_length(total);
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let rows = faults.iter().map(|fault| Row {
        file: &fault.file,
        offset: fault.offset,
        object: fault.object.as_ref(),
        what: &fault.what,
    });
    let (table, rows) = listed(rows, screen);
    let json = json!({"bytes": read, "faults": rows, "seconds": seconds});
    let proved = format!("{} of payload read in {seconds:.1} s", size(read));
    if faults.is_empty() {
        return Ok(Answer::done(format!("{proved}: no fault\n"), &json));
    }
    let text = format!(
        "{}\n{proved}: {} faults. A node serves none of these bytes; what it holds of them it drops when it meets them.\n",
        table.text(),
        faults.len()
    );
    Ok(Answer::done(text, &json).ending(Exit::Failed))
}

fn list(records: &[Placed], limit: usize, screen: &Screen) -> Answer {
    let shown = &records[..records.len().min(limit)];
    let is_cut = shown.len() < records.len();
    if is_cut {
        screen.note(format_args!(
            "there are {}, of which {limit} are shown: raise --limit, or name a key or a tenant",
            records.len()
        ));
    }
    let headings = [
        "tenant", "key", "version", "size", "on disk", "codec", "file", "offset", "sum",
    ];
    let mut table = Table::new(screen, headings);
    let mut objects = Vec::new();
    for (file, record) in shown {
        let file = format!("{file:08x}");
        let crc = format!("{:08x}", record.crc.0);
        table.row([
            (record.tenant.to_string(), Paint::Dim),
            (record.key.to_string(), Paint::Plain),
            (record.ticket.to_string(), Paint::Dim),
            (size(record.len), Paint::Plain),
            (size(record.stored_len), Paint::Dim),
            (record.codec.to_string(), Paint::Dim),
            (file.clone(), Paint::Dim),
            (record.at.to_string(), Paint::Dim),
            (crc.clone(), Paint::Dim),
        ]);
        objects.push(json!({
            "tenant": record.tenant, "key": record.key.to_string(), "ticket": record.ticket.to_string(),
            "len": record.len, "stored_len": record.stored_len, "codec": record.codec.name(), "file": file, "offset": record.at, "crc32": crc,
            "parent": record.parent.as_ref().map(ToString::to_string),
            "group": record.group.as_ref().map(ToString::to_string), "pinned": record.pinned,
        }));
    }
    let exit = if records.is_empty() {
        Exit::Miss
    } else {
        Exit::Done
    };
    Answer::done(
        table.text(),
        &json!({"objects": objects, "truncated": is_cut}),
    )
    .ending(exit)
}

fn write_value(archive: &Archive, records: &[Placed], key: &str, to: &Path) -> Result<Answer> {
    let record = match records {
        [] => {
            let json = json!({"key": key, "found": false});
            return Ok(Answer::done(format!("{key}: not there\n"), &json).ending(Exit::Miss));
        }
        [record] => record,
        several => {
            let names: Vec<_> = several.iter().map(|(_, one)| one.tenant.as_ref()).collect();
            let what = format!(
                "several tenants have {key}: choose with --tenant one of {}",
                names.join(", ")
            );
            return Err(Error::new(Code::InvalidParams, what));
        }
    };
    let value = archive.payload(record)?;
    let written = if to == Path::new("-") {
        std::io::stdout().lock().write_all(&value)
    } else {
        std::fs::write(to, &value)
    };
    written.map_err(|cause| {
        let what = format!("cannot write {}: {cause}", to.display());
        Error::new(Code::FileWriteFail, what)
    })?;
    let json = json!({"key": key, "found": true, "len": value.len()});
    Ok(Answer::done("", &json))
}

fn clear_up(dir: &Path, screen: &Screen) -> Result<Answer> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let done = gc(dir, &clock)?;
    done.remarks.iter().for_each(|remark| screen.warn(remark));
    let (before, after) = (&done.before, &done.after);
    let freed = before.file_bytes.saturating_sub(after.file_bytes);
    let text = format!(
        "{} given back: {} in {} files before, {} in {} files now; {} objects live, {} were copied, {} given up\n",
        size(freed),
        size(before.file_bytes),
        before.files,
        size(after.file_bytes),
        after.files,
        after.records,
        after.copied,
        after.evicted
    );
    let json = json!({
        "freed_bytes": freed, "file_bytes": after.file_bytes, "files": after.files, "objects": after.records,
        "copied": after.copied, "evicted": after.evicted, "remarks": done.remarks,
    });
    Ok(Answer::done(text, &json))
}
