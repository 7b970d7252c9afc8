//! The records of one log file: out of its footer, or batch after batch.

use super::{
    format::{
        PAGE,
        batch::Head,
        codec,
        file::{FIRST_BATCH, Seal, decode_footer},
        pages,
        record::Record,
    },
    logfile,
};
use ziggurat_base::{Code, Error, Result, checksum::Summer};
use ziggurat_engine::canary::{Canary, planted};
use ziggurat_io::{Disk, File};

/// The records of one file, and where its batches end.
pub(super) struct Contents {
    pub(super) records: Vec<Record>,
    pub(super) end: u64,
    pub(super) sealed: bool,
    /// Those whose payloads are not whole, behind all that is vouched for: the end of a process, or damage.
    pub(super) torn: Vec<Record>,
    /// How many were proved by reading them.
    pub(super) proved: u64,
    /// From where to where no batch can be read although a later one vouches for what was there: damage.
    pub(super) gaps: Vec<(u64, u64)>,
    /// Some of it could not be read now, and may be read another time.
    pub(super) hidden: bool,
}

pub(super) async fn contents(
    disk: &dyn Disk,
    number: u32,
    file: &dyn File,
    start: &[u8],
) -> Result<Contents> {
    let seal = start.get(PAGE as usize..).map(Seal::decode);
    if let Some(Ok(Some(seal))) = seal
        && seal.number == number
        && let Some(contents) = sealed(disk, number, file, &seal).await?
    {
        return Ok(contents);
    }
    scan(disk, number, file).await
}

/// The records of a sealed file; `None` when its footer is damaged.
async fn sealed(
    disk: &dyn Disk,
    number: u32,
    file: &dyn File,
    seal: &Seal,
) -> Result<Option<Contents>> {
    let end = seal.footer_at.checked_add(seal.footer_len);
    let inside = end.is_some_and(|end| end <= file.len());
    if !inside || !seal.footer_len.is_multiple_of(PAGE) || !seal.footer_at.is_multiple_of(PAGE) {
        return Ok(None);
    }
    let pool = disk.pool();
    let bytes = match logfile::read_long(file, pool, seal.footer_at, seal.footer_len).await {
        Ok(bytes) => bytes,
        Err(error) if error.code() == Code::FileReadFail => return Ok(None),
        Err(error) => return Err(error),
    };
    match decode_footer(number, &bytes) {
        Ok(records) => {
            let inside = |record: &Record| {
                let end = record.at.checked_add(record.stored_len);
                end.is_some_and(|end| end <= seal.footer_at)
            };
            Ok(Some(Contents {
                records: records.into_iter().filter(inside).collect(),
                end: seal.footer_at + seal.footer_len,
                sealed: true,
                torn: Vec::new(),
                proved: 0,
                gaps: Vec::new(),
                hidden: false,
            }))
        }
        Err(error) if error.code() == Code::InvalidVersion => Err(error),
        Err(_) => Ok(None),
    }
}

/// The records of a file without a footer: batch after batch. Where there is none the scan goes on page by page, for a
/// batch that is whole may follow one that is not.
async fn scan(disk: &dyn Disk, number: u32, file: &dyn File) -> Result<Contents> {
    let mut contents = Contents {
        records: Vec::new(),
        end: FIRST_BATCH,
        sealed: false,
        torn: Vec::new(),
        proved: 0,
        gaps: Vec::new(),
        hidden: false,
    };
    let mut synced = 0;
    let mut at = FIRST_BATCH;
    let mut batches = Vec::new();
    let mut window = Window::default();
    while at + PAGE <= file.len() {
        match batch_at(disk, number, file, at, &mut window).await? {
            Some((head, records)) => {
                synced = synced.max(head.synced);
                if contents.end < at {
                    contents.gaps.push((contents.end, at));
                }
                at += head.len;
                contents.end = at;
                batches.push((head.at, records));
            }
            None => at += PAGE,
        }
    }
    for (at, records) in batches {
        for record in records {
            if at >= synced && !planted(Canary::TornRecordAccepted) {
                contents.proved += 1;
                let whole = match is_whole(disk, file, &record).await {
                    Err(error) if error.code() == Code::FileReadFail => {
                        contents.hidden = true;
                        false
                    }
                    known => known?,
                };
                if !whole {
                    contents.torn.push(record);
                    continue;
                }
            }
            contents.records.push(record);
        }
    }
    contents.gaps.retain(|(from, _)| *from < synced);
    contents.hidden |= window.hides;
    Ok(contents)
}

/// The batch that begins at `at`, if one does.
async fn batch_at(
    disk: &dyn Disk,
    number: u32,
    file: &dyn File,
    at: u64,
    window: &mut Window,
) -> Result<Option<(Head, Vec<Record>)>> {
    let page = window_of(disk, file, at, PAGE, window).await?;
    let Ok(head) = page.map_or(Err(Error::from(Code::FileReadFail)), Head::peek) else {
        return Ok(None);
    };
    let inside = at
        .checked_add(head.len)
        .is_some_and(|end| end <= file.len());
    if head.file != number || head.at != at || !inside {
        return Ok(None);
    }
    let headers = pages(u64::from(head.headers_len));
    let bytes = window_of(disk, file, at, headers, window).await?;
    match bytes.map(Head::decode) {
        Some(Ok(batch)) => Ok(Some(batch)),
        Some(Err(error)) if error.code() == Code::InvalidVersion => Err(error),
        _ => Ok(None),
    }
}

/// Some pages of the file, out of a window that is read ahead; `None` when they cannot be read.
async fn window_of<'a>(
    disk: &dyn Disk,
    file: &dyn File,
    at: u64,
    len: u64,
    window: &'a mut Window,
) -> Result<Option<&'a [u8]>> {
    const AHEAD: u64 = 256 << 10;
    let inside = window.at <= at && at + len <= window.at + window.bytes.len() as u64;
    if !inside {
        let most = file.len() / PAGE * PAGE - at;
        let whole = len.max(AHEAD).min(most);
        let pool = disk.pool();
        let bytes = match logfile::read_long(file, pool, at, whole).await {
            Ok(bytes) => bytes,
            // One page that cannot be read must not hide the others.
            Err(error) if error.code() == Code::FileReadFail => {
                match logfile::read_long(file, pool, at, len).await {
                    Ok(bytes) => bytes,
                    Err(error) if error.code() == Code::FileReadFail => {
                        window.hides = true;
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        (window.at, window.bytes) = (at, bytes);
    }
    let from = (at - window.at) as usize;
    Ok(window.bytes.get(from..from + len as usize))
}

/// Whether the payload of a record is the one that was written.
async fn is_whole(disk: &dyn Disk, file: &dyn File, record: &Record) -> Result<bool> {
    if record.stored_len == 0 {
        return Ok(record.crc == ziggurat_base::Crc32::default());
    }
    let block = u64::from(disk.geometry().block);
    let from = record.at / block * block;
    let to = (record.at + record.stored_len).next_multiple_of(block);
    if to > file.len() {
        return Ok(false);
    }
    let bytes = logfile::read_long(file, disk.pool(), from, to - from).await?;
    let skip = (record.at - from) as usize;
    let stored = &bytes[skip..skip + record.stored_len as usize];
    let mut summer = Summer::default();
    let decoded = codec::decode(record.codec, record.len, stored, &mut |bytes| {
        summer.update(bytes);
    });
    Ok(decoded.is_ok() && summer.crc() == record.crc)
}

/// Bytes that were read ahead.
#[derive(Default)]
struct Window {
    at: u64,
    bytes: Vec<u8>,
    /// A page could not be read.
    hides: bool,
}
