//! What the driver moves on a directory, beside fio with the same file, block size and depth.
//!
//! ```console
//! $ cargo run --release -p ziggurat-io --example ceiling -- DIR [name=value …]
//! ```
//!
//! Names and defaults: `rounds=5`, `seconds=1`, `bytes=1073741824` (of the file), `depth=32`, `engine=auto`,
//! `pool=67108864`, `shape=` (only shapes whose name contains this), `sqpoll_ms=0`, `iopoll=0`. Driver and fio take
//! turns within a round; the table has the medians, and of the ratios also the least and the greatest. fio runs where it
//! is installed.

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use pollster::block_on;
use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Write as _,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use ziggurat_base::hash::Dice;
use ziggurat_io::{Buffer, Choice, Disk, File, Landed, Options, Pool, Request, open};

type Outcome<T> = Result<T, Box<dyn Error>>;

const FILE: &str = "ceiling.dat";

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    block: u64,
    fio: &'static str,
    writes: bool,
    random: bool,
}

const SHAPES: [Shape; 5] = [
    shape("read 4 KiB", 4 << 10, "randread", false, true),
    shape("read 64 KiB", 64 << 10, "randread", false, true),
    shape("read 1 MiB", 1 << 20, "randread", false, true),
    shape("write 64 KiB", 64 << 10, "write", true, false),
    shape("write 1 MiB", 1 << 20, "write", true, false),
];

const fn shape(
    name: &'static str,
    block: u64,
    fio: &'static str,
    writes: bool,
    random: bool,
) -> Shape {
    Shape {
        name,
        block,
        fio,
        writes,
        random,
    }
}

struct Settings {
    directory: PathBuf,
    values: BTreeMap<String, String>,
}

impl Settings {
    fn parse() -> Outcome<Self> {
        let mut arguments = std::env::args().skip(1);
        let directory = arguments.next().ok_or("name a directory")?;
        let values = arguments
            .map(|argument| {
                let pair = argument.split_once('=');
                pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .ok_or_else(|| format!("`{argument}` is not name=value"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            directory: directory.into(),
            values,
        })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn number(&self, name: &str, default: u64) -> Outcome<u64> {
        Ok(self.text(name).map_or(Ok(default), str::parse)?)
    }

    fn options(&self) -> Outcome<Options> {
        let engine = match self.text("engine").unwrap_or("auto") {
            "auto" => Choice::Auto,
            "uring" => Choice::Uring,
            "threads" => Choice::Threads,
            other => return Err(format!("there is no engine `{other}`").into()),
        };
        let idle = self.number("sqpoll_ms", 0)?;
        let depth = self.number("depth", 32)? as u32;
        Ok(Options {
            engine,
            depth,
            threads: depth,
            sqpoll: (idle > 0).then(|| Duration::from_millis(idle)),
            iopoll: self.number("iopoll", 0)? > 0,
            ..Options::default()
        })
    }
}

/// One measurement.
#[derive(Clone, Copy)]
struct Speed {
    bytes_per_s: f64,
    cpu_s_per_gb: f64,
}

fn main() -> Outcome<()> {
    let settings = Settings::parse()?;
    let pool = Pool::new(settings.number("pool", 64 << 20)?)?;
    let (disk, report) = open(&settings.directory, &pool, &settings.options()?)?;
    println!("{report}");
    let len = settings.number("bytes", 1 << 30)?;
    let file = prepare(&*disk, len)?;
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    println!(
        "{:<14}{:>9}{:>10}{:>10}{:>9}{:>10}{:>10}  ratio (least, greatest)",
        "", "GB/s", "IOPS", "CPU s/GB", "fio", "IOPS", "CPU s/GB"
    );
    for shape in SHAPES {
        if !shape
            .name
            .contains(settings.text("shape").unwrap_or_default())
        {
            continue;
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..settings.number("rounds", 5)? {
            ours.push(drive(&*disk, &file, shape, &settings, round)?);
            if has_fio {
                theirs.push(fio(&settings, shape)?);
            }
        }
        println!("{}", line(shape, &ours, &theirs));
    }
    drop(file);
    block_on(disk.remove(FILE))?;
    Ok(())
}

/// A file whose blocks have been written once.
fn prepare(disk: &dyn Disk, len: u64) -> Outcome<Arc<dyn File>> {
    if let Err(error) = block_on(disk.remove(FILE))
        && error.code() != ziggurat_base::Code::FileNotFound
    {
        return Err(error.into());
    }
    let file = block_on(disk.create(FILE, len))?;
    let mut dice = Dice::new(1);
    for offset in (0..len).step_by(1 << 20) {
        let mut buffer = block_on(disk.pool().take(1 << 20))?;
        buffer
            .chunks_exact_mut(8)
            .for_each(|word| word.copy_from_slice(&dice.roll().to_le_bytes()));
        let request = Request::Write {
            offset,
            buffer,
            sync: offset + (1 << 20) >= len,
        };
        block_on(file.start(vec![request]).remove(0)).result?;
    }
    Ok(file)
}

/// Keeps the window full for the time of a round.
fn drive(
    disk: &dyn Disk,
    file: &Arc<dyn File>,
    shape: Shape,
    settings: &Settings,
    round: u64,
) -> Outcome<Speed> {
    let depth = settings.number("depth", 32)? as usize;
    let span = Duration::from_secs(settings.number("seconds", 1)?);
    let mut place = Place {
        dice: Dice::new(round),
        blocks: file.len() / shape.block,
        next: 0,
        random: shape.random,
    };
    let request = |buffer: Buffer, place: &mut Place| {
        let offset = place.next() * shape.block;
        match shape.writes {
            true => Request::Write {
                offset,
                buffer,
                sync: false,
            },
            false => Request::Read { offset, buffer },
        }
    };
    let mut flights = FuturesUnordered::new();
    for _ in 0..depth {
        let buffer = block_on(disk.pool().take(shape.block as usize))?;
        flights.extend(file.start(vec![request(buffer, &mut place)]));
    }
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let mut bytes = 0;
    while let Some(Landed { buffer, result }) = block_on(flights.next()) {
        result?;
        bytes += shape.block;
        if start.elapsed() < span {
            let buffer = buffer.ok_or("a transfer gives its buffer back")?;
            flights.extend(file.start(vec![request(buffer, &mut place)]));
        }
    }
    if shape.writes {
        block_on(file.start(vec![Request::Sync]).remove(0)).result?;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_time()? - cpu);
    Ok(Speed {
        bytes_per_s: bytes as f64 / seconds,
        cpu_s_per_gb: cpu / (bytes as f64 / 1e9),
    })
}

struct Place {
    dice: Dice,
    blocks: u64,
    next: u64,
    random: bool,
}

impl Place {
    fn next(&mut self) -> u64 {
        if self.random {
            return self.dice.below(self.blocks);
        }
        self.next += 1;
        (self.next - 1) % self.blocks
    }
}

/// Seconds of processor time of this process, those of its kernel threads included.
fn cpu_time() -> Outcome<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = text
        .rsplit_once(')')
        .ok_or("/proc/self/stat has another form")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS_PER_S)
}

fn fio(settings: &Settings, shape: Shape) -> Outcome<Speed> {
    let file = settings.directory.join(FILE);
    let mut command = Command::new("fio");
    command.args([
        "--name=x",
        "--ioengine=io_uring",
        "--direct=1",
        "--fixedbufs",
        "--registerfiles",
    ]);
    command.args(["--time_based", "--output-format=json", "--norandommap"]);
    command.arg(format!("--filename={}", file.display()));
    command.arg(format!("--rw={}", shape.fio));
    command.arg(format!("--bs={}", shape.block));
    command.arg(format!("--iodepth={}", settings.number("depth", 32)?));
    command.arg(format!("--runtime={}", settings.number("seconds", 1)?));
    command.arg(format!("--size={}", settings.number("bytes", 1 << 30)?));
    if shape.writes {
        command.arg("--end_fsync=1");
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let job = &json["jobs"][0];
    let side = &job[if shape.writes { "write" } else { "read" }];
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_default();
    let bytes = number(&side["io_bytes"]);
    let runtime_s = number(&job["job_runtime"]) / 1e3;
    let cpu = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0 * runtime_s;
    Ok(Speed {
        bytes_per_s: bytes / (number(&side["runtime"]) / 1e3),
        cpu_s_per_gb: cpu / (bytes / 1e9),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn line(shape: Shape, ours: &[Speed], theirs: &[Speed]) -> String {
    let mut line = format!("{:<14}", shape.name);
    for speeds in [ours, theirs] {
        let bytes = median(speeds.iter().map(|speed| speed.bytes_per_s));
        let cpu = median(speeds.iter().map(|speed| speed.cpu_s_per_gb));
        let iops = bytes / shape.block as f64;
        write!(line, "{:>9.2}{iops:>10.0}{cpu:>10.3}", bytes / 1e9).expect("a string takes all");
    }
    let ratios = || {
        ours.iter()
            .zip(theirs)
            .map(|(our, their)| our.bytes_per_s / their.bytes_per_s)
    };
    let (least, greatest) = ratios().fold((f64::NAN, f64::NAN), |(least, greatest), ratio| {
        (ratio.min(least), ratio.max(greatest))
    });
    write!(
        line,
        "  {:.2} ({least:.2}, {greatest:.2})",
        median(ratios())
    )
    .expect("a string takes all");
    line
}
