//! Looking at a directory that no process serves. Nothing is changed.

use super::{
    append::{file_name, file_number, sums_of},
    format::{
        PAGE,
        codec::{self, Codec},
        file::{FIRST_BATCH, FileHead, Seal},
        identity::{self, Identity},
        record::{Form, Record},
    },
    logfile, scan,
    tombs::Tombs,
};
use std::collections::BTreeMap;
use ziggurat_base::{
    CHUNK, Code, Crc32, DirectoryId, Error, ObjectKey, Result, Ticket, checksum::Summer,
};
use ziggurat_io::{Disk, File};

/// One log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// Whether it is sealed with a footer that can be read.
    pub sealed: bool,
    /// Records that are alive.
    pub live: u64,
    /// Their bytes on disk.
    pub live_bytes: u64,
    /// Records that are dead by a tombstone or a later copy.
    pub dead: u64,
    /// Why it cannot be read, if it cannot.
    pub trouble: Option<String>,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its identity.
    pub directory: DirectoryId,
    /// Its log files, oldest first.
    pub files: Vec<FileReport>,
    /// Tombstones that count.
    pub tombstones: u64,
    /// Records that are alive, by tenant, with their bytes.
    pub tenants: BTreeMap<Box<str>, (u64, u64)>,
    /// The same by codec, with the bytes of their payloads.
    pub codecs: BTreeMap<Codec, Stored>,
    /// What else lies there.
    pub foreign: Vec<String>,
}

/// Records that are stored the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Records.
    pub records: u64,
    /// Bytes of their payloads.
    pub len: u64,
    /// Bytes of them on disk.
    pub stored_len: u64,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In which file.
    pub file: String,
    /// From which byte on.
    pub offset: u64,
    /// Whose object it is; `None` when that cannot be told.
    pub object: Option<(Box<str>, ObjectKey, Ticket)>,
    /// What is wrong.
    pub what: String,
}

/// A record that is alive, with the number of its file.
pub type Placed = (u32, Record);

/// What a directory holds.
struct Contents {
    report: Report,
    records: Vec<Placed>,
    /// Whether nobody knows which records are dead.
    is_doubtful: bool,
    /// What the scan of files without a footer met.
    faults: Vec<Fault>,
}

async fn identity_of(disk: &dyn Disk) -> Result<DirectoryId> {
    let missing = || {
        Error::new(
            Code::FileNotFound,
            format!(
                "there is no {} here: this is no SSD directory of the store",
                identity::NAME
            ),
        )
    };
    let names = disk.list().await?;
    if !names.iter().any(|file| file.name == identity::NAME) {
        return Err(missing());
    }
    let file = disk.open(identity::NAME).await?;
    let len = (file.len() / PAGE * PAGE).min(PAGE);
    let bytes = logfile::read_long(&*file, disk.pool(), 0, len).await?;
    Ok(Identity::decode(&bytes)?.directory)
}

/// The records of a file; `None` for one that was being made when the process ended.
async fn read_file(
    disk: &dyn Disk,
    directory: DirectoryId,
    number: u32,
) -> Result<Option<scan::Contents>> {
    let file = disk.open(&file_name(number)).await?;
    let start = FIRST_BATCH.min(file.len() / PAGE * PAGE);
    let start = logfile::read_long(&*file, disk.pool(), 0, start).await?;
    if logfile::is_blank(&*file, disk.pool(), &start).await? {
        return Ok(None);
    }
    let head = FileHead::decode(&start)?;
    if head.directory != directory || head.number != number {
        return Err(Error::new(
            Code::InvalidParams,
            format!(
                "it is file {:08x} of directory {}",
                head.number, head.directory
            ),
        ));
    }
    scan::contents(disk, number, &*file, &start).await.map(Some)
}

async fn contents(disk: &dyn Disk) -> Result<Contents> {
    let directory = identity_of(disk).await?;
    let found = Tombs::look(disk, directory).await?;
    let mut report = Report {
        directory,
        files: Vec::new(),
        tombstones: found.tombs.count(),
        tenants: BTreeMap::new(),
        codecs: BTreeMap::new(),
        foreign: Vec::new(),
    };
    // By ticket, so that a later copy takes the place of an earlier one.
    let mut alive: BTreeMap<Ticket, Placed> = BTreeMap::new();
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut faults = Vec::new();
    for file in disk.list().await? {
        let Some(number) = file_number(&file.name) else {
            if ![identity::NAME, Tombs::NAME].contains(&file.name.as_str()) {
                report.foreign.push(file.name);
            }
            continue;
        };
        let mut row = FileReport {
            name: file.name,
            len: file.len,
            sealed: false,
            live: 0,
            live_bytes: 0,
            dead: 0,
            trouble: None,
        };
        match read_file(disk, directory, number).await {
            Ok(None) => {}
            Ok(Some(contents)) => {
                faults.extend(scan_faults(&row.name, &contents));
                row.sealed = contents.sealed;
                counts.insert(number, contents.records.len() as u64);
                for record in contents.records {
                    if !found.tombs.covers(number, record.ticket) {
                        alive.insert(record.ticket, (number, record));
                    }
                }
            }
            Err(error) => row.trouble = Some(error.to_string()),
        }
        report.files.push(row);
    }
    count_alive(&mut report, &alive, &counts);
    let mut records: Vec<_> = alive.into_values().collect();
    records.sort_by_key(|(number, record)| (*number, record.at));
    Ok(Contents {
        report,
        records,
        is_doubtful: found.doubtful,
        faults,
    })
}

/// Adds what is alive to a report, and what is not, given how many records each file has.
fn count_alive(report: &mut Report, alive: &BTreeMap<Ticket, Placed>, counts: &BTreeMap<u32, u64>) {
    for (number, record) in alive.values() {
        let tenant = report.tenants.entry(record.tenant.clone()).or_default();
        tenant.0 += 1;
        tenant.1 += record.stored_len;
        let stored = report.codecs.entry(record.codec).or_default();
        stored.records += 1;
        stored.len += record.len;
        stored.stored_len += record.stored_len;
        let name = file_name(*number);
        if let Some(row) = report.files.iter_mut().find(|row| row.name == name) {
            row.live += 1;
            row.live_bytes += record.stored_len;
        }
    }
    for row in &mut report.files {
        let all = file_number(&row.name).and_then(|number| counts.get(&number));
        row.dead = all.copied().unwrap_or(0) - row.live;
    }
}

/// What can be told of a file without a footer by its batches alone.
fn scan_faults(name: &str, contents: &scan::Contents) -> Vec<Fault> {
    let torn = contents.torn.iter().map(|record| {
        let what = "not whole: its write was interrupted, or it is damaged";
        fault(name, record.at, Some(object_of(record)), what)
    });
    let gaps = contents.gaps.iter().map(|(from, to)| {
        let what = format!("no batch can be read up to {to}: what was there is lost");
        fault(name, *from, None, &what)
    });
    torn.chain(gaps).collect()
}

fn object_of(record: &Record) -> (Box<str>, ObjectKey, Ticket) {
    (record.tenant.clone(), record.key.clone(), record.ticket)
}

/// What a directory holds, without reading payloads.
///
/// # Errors
/// When it is no directory of the store, or of a later release, or the disk fails.
pub async fn inspect(disk: &dyn Disk) -> Result<Report> {
    Ok(contents(disk).await?.report)
}

/// Every record that is alive, in the order in which they lie on disk.
///
/// # Errors
/// As [`inspect`].
pub async fn records(disk: &dyn Disk) -> Result<Vec<Placed>> {
    Ok(contents(disk).await?.records)
}

/// The payload of a record, proved.
///
/// # Errors
/// `ChecksumMismatch` when it is damaged, and errors of the disk.
pub async fn payload(disk: &dyn Disk, placed: &Placed) -> Result<Vec<u8>> {
    let (number, record) = placed;
    let file = disk.open(&file_name(*number)).await?;
    let stored = bytes_of(disk, &*file, record).await?;
    let mut bytes = Vec::new();
    codec::decode(record.codec, record.len, &stored, &mut |chunk| {
        bytes.extend_from_slice(chunk);
    })?;
    if sums_of(&bytes).0 == record.crc {
        return Ok(bytes);
    }
    Err(super::format::damaged("the payload does not have its sum"))
}

/// Reads and proves everything that is alive: payloads, their full headers, footers and tombstones. `progress` is told the
/// bytes read so far and those of all payloads.
///
/// # Errors
/// As [`inspect`]. What is damaged is no error but a [`Fault`].
pub async fn verify(
    disk: &dyn Disk,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Vec<Fault>> {
    let Contents {
        report,
        records,
        is_doubtful,
        mut faults,
    } = contents(disk).await?;
    if is_doubtful {
        faults.push(fault(
            Tombs::NAME,
            0,
            None,
            "a page of tombstones is damaged: the next start gives all records up",
        ));
    }
    for row in &report.files {
        if let Some(trouble) = &row.trouble {
            faults.push(fault(&row.name, 0, None, trouble));
        } else if !row.sealed {
            let seal = seal_of(disk, &row.name).await?;
            if let Some(what) = seal {
                faults.push(fault(&row.name, PAGE, None, &what));
            }
        }
    }
    let total = records.iter().map(|(_, record)| record.stored_len).sum();
    let mut done = 0;
    let mut open: Option<(u32, std::sync::Arc<dyn File>)> = None;
    for (number, record) in records {
        let file = match &open {
            Some((here, file)) if *here == number => std::sync::Arc::clone(file),
            _ => disk.open(&file_name(number)).await?,
        };
        open = Some((number, std::sync::Arc::clone(&file)));
        for (offset, what) in faults_of(disk, &*file, &record).await? {
            let object = Some(object_of(&record));
            faults.push(fault(&file_name(number), offset, object, &what));
        }
        done += record.stored_len;
        progress(done, total);
    }
    Ok(faults)
}

fn fault(
    file: &str,
    offset: u64,
    object: Option<(Box<str>, ObjectKey, Ticket)>,
    what: &str,
) -> Fault {
    Fault {
        file: file.into(),
        offset,
        object,
        what: what.into(),
    }
}

/// What is wrong with the seal of a file that is read by its batches; an open file has none.
async fn seal_of(disk: &dyn Disk, name: &str) -> Result<Option<String>> {
    let file = disk.open(name).await?;
    if file.len() < FIRST_BATCH {
        return Ok(Some("the file is cut off".into()));
    }
    let page = logfile::read_long(&*file, disk.pool(), PAGE, PAGE).await?;
    Ok(match Seal::decode(&page) {
        Ok(None) => None,
        Ok(Some(_)) => Some("the footer is damaged; the file is read by its batches".into()),
        Err(error) => Some(format!("{error}; the file is read by its batches")),
    })
}

async fn bytes_of(disk: &dyn Disk, file: &dyn File, record: &Record) -> Result<Vec<u8>> {
    let block = u64::from(disk.geometry().block);
    let from = record.at / block * block;
    let to = (record.at + record.stored_len).next_multiple_of(block);
    let mut bytes = logfile::read_long(file, disk.pool(), from, to - from).await?;
    bytes.drain(..(record.at - from) as usize);
    bytes.truncate(record.stored_len as usize);
    Ok(bytes)
}

async fn faults_of(
    disk: &dyn Disk,
    file: &dyn File,
    record: &Record,
) -> Result<Vec<(u64, String)>> {
    let mut faults = Vec::new();
    let header_len = record.encoded_len(Form::Full) as u64;
    let from = record.header_at / PAGE * PAGE;
    let to = (record.header_at + header_len).next_multiple_of(PAGE);
    let header = logfile::read_long(file, disk.pool(), from, to - from).await;
    let header =
        header.and_then(|bytes| Record::decode(&bytes[(record.header_at - from) as usize..]));
    let table = match header {
        Ok((full, Form::Full, _)) if full.ticket == record.ticket => full.table,
        Ok(_) => {
            faults.push((
                record.header_at,
                "another record lies where its header was".into(),
            ));
            Vec::new()
        }
        Err(error) => {
            faults.push((record.header_at, format!("its header is damaged: {error}")));
            Vec::new()
        }
    };
    match bytes_of(disk, file, record).await {
        Ok(stored) => faults.extend(payload_fault(record, &table, &stored)),
        Err(error) if error.code() == Code::FileReadFail => {
            faults.push((record.at, error.to_string()));
        }
        Err(error) => return Err(error),
    }
    Ok(faults)
}

/// What is wrong with a payload, and where: at the first chunk that is not its own.
fn payload_fault(record: &Record, table: &[Crc32], stored: &[u8]) -> Option<(u64, String)> {
    let mut summer = Summer::default();
    let decoded = codec::decode(record.codec, record.len, stored, &mut |bytes| {
        summer.update(bytes);
    });
    let crc = summer.crc();
    let whole = summer.finish();
    if decoded.is_ok() && crc == record.crc {
        return None;
    }
    let here = whole.sums();
    let bad = here.iter().zip(table).position(|(here, sum)| here != sum);
    // Where a chunk cannot be decompressed, the sums end before it.
    let bad = bad.unwrap_or(if decoded.is_err() { here.len() } else { 0 });
    let what = match decoded {
        Ok(()) => "the payload does not have its sum".into(),
        Err(error) => format!("the payload cannot be decompressed: {error}"),
    };
    Some((record.at + chunk_at(record, stored, bad), what))
}

/// Where the body of a chunk begins in what is stored of a payload; its start when that cannot be told.
fn chunk_at(record: &Record, stored: &[u8], number: usize) -> u64 {
    if record.codec == Codec::Plain {
        return number as u64 * CHUNK as u64;
    }
    let index = usize::try_from(codec::index_len(record.len)).unwrap_or(usize::MAX);
    let index = stored.get(..index);
    let index = index.map(|bytes| codec::Index::decode(bytes, record.len, record.stored_len));
    match index {
        Some(Ok(index)) if number < index.count() => index.span(number..number + 1).start,
        _ => 0,
    }
}
