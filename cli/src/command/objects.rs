//! `ziggurat put|get|exists|rm|ls|stat`: objects of a cluster by key.

use crate::{
    answer::{Answer, Exit},
    config::{Config, Flags, ForClient},
    screen::Screen,
    table::{Paint, Table},
};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    str::FromStr,
};
use ziggurat_base::{ByteCount, Code, Error, Result};
use ziggurat_store::{Blocking, Force, PutOptions, PutOutcome};

/// Store a value under a key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ziggurat put greeting hello.txt\n  echo hello | ziggurat put greeting -"
)]
pub(crate) struct PutArguments {
    /// 1 to 4096 bytes
    key: String,
    /// A file, or - for standard input
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// Replicas: a number of memory replicas, or numbers by kind, as dram=1,dfs=1; each on another segment or shard file
    #[arg(long, default_value = "1", value_name = "NUMBER|KIND=NUMBER,…")]
    replicas: Replicas,
    /// Try these segments first
    #[arg(long, value_name = "NAME")]
    prefer: Vec<String>,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

/// How many replicas of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Replicas {
    dram: u8,
    dfs: u8,
}

impl FromStr for Replicas {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::new(
                Code::InvalidParams,
                format!("{text:?} are no replicas: {why}; write for example 2, or dram=1,dfs=1"),
            )
        };
        let number = |text: &str| {
            let number = text.parse::<u8>();
            number.map_err(|_| wrong("a number from 0 to 255 is needed"))
        };
        let mut replicas = Self { dram: 0, dfs: 0 };
        if text.contains('=') {
            for part in text.split(',') {
                match part.split_once('=') {
                    Some(("dram", count)) => replicas.dram = number(count)?,
                    Some(("dfs", count)) => replicas.dfs = number(count)?,
                    _ => return Err(wrong("the kinds are dram and dfs")),
                }
            }
        } else {
            replicas.dram = number(text)?;
        }
        if replicas.dram == 0 && replicas.dfs == 0 {
            return Err(wrong("at least one is needed"));
        }
        Ok(replicas)
    }
}

/// Print the value of a key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ziggurat get greeting\n  ziggurat get greeting --output hello.txt\n  ziggurat get weights --range 0..4096"
)]
pub(crate) struct GetArguments {
    /// The key
    key: String,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these bytes, as FIRST..END
    #[arg(long, value_name = "RANGE")]
    range: Option<String>,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

/// Say which keys are readable
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ziggurat exists greeting\n  ziggurat exists block/1 block/2 --json"
)]
pub(crate) struct ExistsArguments {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

/// Remove objects
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ziggurat rm greeting\n  ziggurat rm --matching '^session-42/' --force\n  ziggurat rm --all"
)]
pub(crate) struct RemoveArguments {
    /// The keys
    #[arg(required_unless_present_any = ["matching", "all"], value_name = "KEY")]
    keys: Vec<String>,
    /// Every key in which this regular expression is found
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["keys", "all"])]
    matching: Option<String>,
    /// Every key of the tenant
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    /// Also what a reader holds; it finishes reading all the same
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

/// List keys and lengths
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ziggurat ls\n  ziggurat ls '^session-42/' --limit 10")]
pub(crate) struct ListArguments {
    /// Only keys in which this regular expression is found
    #[arg(default_value = "")]
    pattern: String,
    /// At most so many
    #[arg(long, default_value_t = 1000)]
    limit: usize,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

/// Tell everything about objects
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ziggurat stat greeting")]
pub(crate) struct StatArguments {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

/// A connection for one command. At its end the guards that it took are given back, so that the next command need not
/// wait for them to run out.
pub(super) struct Cluster(Blocking);

impl std::ops::Deref for Cluster {
    type Target = Blocking;

    fn deref(&self) -> &Blocking {
        &self.0
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(super) fn connected(flags: &Flags<ForClient>, screen: &Screen) -> Result<Cluster> {
    Config::load(flags)?.connect(screen).map(Cluster)
}

fn force(force: bool) -> Force {
    if force { Force::Yes } else { Force::No }
}

pub(super) fn keys_of(keys: &[String]) -> Vec<&[u8]> {
    keys.iter().map(String::as_bytes).collect()
}

/// A miss. Standard output is the value's alone, so people are told on standard error.
fn missing(key: &str, screen: &Screen) -> Answer {
    screen.note(format_args!("{key}: not there"));
    Answer::done("", &json!({"key": key, "found": false})).ending(Exit::Miss)
}

fn read_source(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        Error::new(
            Code::FileNotFound,
            format!("cannot read {}: {error}", path.display()),
        )
    };
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(failed)
}

pub(crate) fn put(arguments: &PutArguments, screen: &Screen) -> Result<Answer> {
    let value = read_source(&arguments.source)?;
    let store = connected(&arguments.flags, screen)?;
    let options = PutOptions::replicas(arguments.replicas.dram)
        .with_dfs(arguments.replicas.dfs)
        .preferring(arguments.prefer.iter().map(String::as_str));
    let key = &arguments.key;
    let size = ByteCount(value.len() as u64);
    Ok(match store.put_parts(key, &[&value], &options)? {
        PutOutcome::Stored { replicas } => Answer::done(
            format!("stored {key}: {size}, {replicas} replica(s)\n"),
            &json!({"key": key, "stored": true, "len": size.0, "replicas": replicas}),
        ),
        PutOutcome::Existed => Answer::done(
            format!("{key} is there already and keeps its value\n"),
            &json!({"key": key, "stored": false, "existed": true}),
        ),
    })
}

fn range(text: &str) -> Result<(u64, u64)> {
    let wrong = || {
        Error::new(
            Code::InvalidParams,
            format!("{text:?} is not a range: write for example 0..4096"),
        )
    };
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let (first, end): (u64, u64) = (
        first.parse().map_err(|_| wrong())?,
        end.parse().map_err(|_| wrong())?,
    );
    Ok((first, end.checked_sub(first).ok_or_else(wrong)?))
}

pub(crate) fn get(arguments: &GetArguments, screen: &Screen) -> Result<Answer> {
    let range = arguments.range.as_deref().map(range).transpose()?;
    let store = connected(&arguments.flags, screen)?;
    let key = &arguments.key;
    let value = match range {
        Some((offset, len)) => store.get_range(key, offset, len)?,
        None => store.get(key)?,
    };
    let Some(value) = value else {
        return Ok(missing(key, screen));
    };
    let json = json!({"key": key, "found": true, "len": value.len()});
    let failed = |to: &str, error: std::io::Error| {
        Error::new(Code::FileWriteFail, format!("cannot write {to}: {error}"))
    };
    match &arguments.output {
        Some(path) => {
            std::fs::write(path, &value).map_err(|e| failed(&path.display().to_string(), e))?
        }
        None => {
            let mut stdout = std::io::stdout().lock();
            let newline: &[u8] = if screen.is_json() { b"\n" } else { b"" };
            let written = stdout
                .write_all(&value)
                .and_then(|()| stdout.write_all(newline));
            written.map_err(|e| failed("to standard output", e))?;
        }
    }
    Ok(Answer::done("", &json))
}

pub(crate) fn exists(arguments: &ExistsArguments, screen: &Screen) -> Result<Answer> {
    let store = connected(&arguments.flags, screen)?;
    let found: Vec<bool> = store
        .exist_many(&keys_of(&arguments.keys))
        .into_iter()
        .collect::<Result<_>>()?;
    let mut text = String::new();
    let mut json = serde_json::Map::new();
    for (key, found) in arguments.keys.iter().zip(&found) {
        text += &format!("{key}: {}\n", if *found { "there" } else { "not there" });
        json.insert(key.clone(), Value::Bool(*found));
    }
    let exit = if found.iter().all(|found| *found) {
        Exit::Done
    } else {
        Exit::Miss
    };
    Ok(Answer::done(text, &json!({"exists": json})).ending(exit))
}

pub(crate) fn remove(arguments: &RemoveArguments, screen: &Screen) -> Result<Answer> {
    let store = connected(&arguments.flags, screen)?;
    let force = force(arguments.force);
    if arguments.keys.is_empty() {
        let pattern = arguments.matching.as_deref().unwrap_or_default();
        let done = store.remove_matching(pattern, force)?;
        let text = format!(
            "{} removed, {} kept by readers\n",
            done.removed, done.leased
        );
        return Ok(Answer::done(
            text,
            &json!({"removed": done.removed, "leased": done.leased}),
        ));
    }
    let (mut text, mut results, mut exit) = (String::new(), serde_json::Map::new(), Exit::Done);
    for (key, result) in arguments
        .keys
        .iter()
        .zip(store.remove_many(&keys_of(&arguments.keys), force))
    {
        match result {
            Ok(()) => {
                text += &format!("{key}: removed\n");
                results.insert(key.clone(), json!("OK"));
            }
            Err(error) => {
                exit = if error.code() == Code::ObjectNotFound && exit != Exit::Failed {
                    Exit::Miss
                } else {
                    Exit::Failed
                };
                text += &format!("{key}: {error}\n");
                results.insert(key.clone(), json!(error.code().name()));
            }
        }
    }
    Ok(Answer::done(text, &json!({"results": results})).ending(exit))
}

pub(crate) fn list(arguments: &ListArguments, screen: &Screen) -> Result<Answer> {
    let store = connected(&arguments.flags, screen)?;
    // One more than asked for tells whether there are more.
    let mut found = store.list(&arguments.pattern, arguments.limit.saturating_add(1))?;
    let is_cut = found.len() > arguments.limit;
    if is_cut {
        found.truncate(arguments.limit);
        screen.note(format_args!(
            "there are more than {0}: raise --limit, or give a pattern",
            arguments.limit
        ));
    }
    let mut table = Table::new(screen, ["key", "size"]);
    for (key, len) in &found {
        table.row([
            (key.to_string(), Paint::Plain),
            (ByteCount(*len).to_string(), Paint::Dim),
        ]);
    }
    let objects: Vec<_> = found
        .iter()
        .map(|(key, len)| json!({"key": key.to_string(), "len": len}))
        .collect();
    let report = json!({"objects": objects, "truncated": is_cut});
    Ok(Answer::done(table.text(), &report))
}

pub(crate) fn stat(arguments: &StatArguments, screen: &Screen) -> Result<Answer> {
    let store = connected(&arguments.flags, screen)?;
    let mut table = Table::new(
        screen,
        ["key", "size", "version", "sum", "replicas", "lease"],
    );
    let (mut objects, mut exit) = (Vec::new(), Exit::Done);
    for (key, stat) in arguments
        .keys
        .iter()
        .zip(store.stat_many(&keys_of(&arguments.keys)))
    {
        let Some(stat) = stat? else {
            exit = Exit::Miss;
            objects.push(json!({"key": key, "found": false}));
            table.row(
                [key.as_str(), "not there", "", "", "", ""]
                    .map(|text| (text.to_owned(), Paint::Dim)),
            );
            continue;
        };
        let replicas: Vec<_> = stat
            .replicas
            .as_slice()
            .iter()
            .map(|t| t.placement.segment.to_string())
            .collect();
        let lease = ziggurat_base::unit::human_span(stat.lease);
        objects.push(json!({
            "key": key, "found": true, "len": stat.len, "ticket": stat.ticket.to_string(),
            "crc32": format!("{:08x}", stat.crc.0), "segments": replicas, "lease_ms": stat.lease.as_millis() as u64,
            "parent": stat.parent.map(|k| k.to_string()), "group": stat.group.map(|k| k.to_string()),
        }));
        let cells = [
            key.clone(),
            ByteCount(stat.len).to_string(),
            stat.ticket.to_string(),
            format!("{:08x}", stat.crc.0),
            replicas.join(" "),
            lease,
        ];
        table.row(cells.map(|text| (text, Paint::Plain)));
    }
    Ok(Answer::done(table.text(), &json!({"objects": objects})).ending(exit))
}
