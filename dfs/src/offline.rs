//! Looking at a root that no process serves, proving it, and finding out what it holds when nobody else knows any more.

mod directory;

pub use directory::{Directory, random_number, read_index, write_index};

use crate::{
    Found, Removals, Root, ScanCounts, ShardInfo,
    format::{BLOCK, damaged, index::Index, record::Header},
    root::is_ours,
    shard::{self, Shard},
    transfer::{Inflow, land},
};
use std::{collections::BTreeMap, sync::Arc};
use ziggurat_base::{
    CHUNK, ChunkTable, Code, Crc32, Error, Extent, ObjectKey, Result, Ticket, checksum::Summer,
};
use ziggurat_engine::shard_record::payload_len;
use ziggurat_io::Disk;

/// Is told how many bytes of shard files were passed, of how many.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// What one shard file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardReport {
    /// Its name.
    pub name: String,
    /// Which it is; `None` when it cannot be opened.
    pub info: Option<ShardInfo>,
    /// What was met there.
    pub counts: ScanCounts,
    /// Bytes of the extents of what counts.
    pub bytes: u64,
    /// What is wrong with it, if something is.
    pub trouble: Option<String>,
}

/// What a root holds, by its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its number.
    pub root: u128,
    /// How it is cut, and whose it is.
    pub layout: crate::Layout,
    /// Its shard files.
    pub shards: Vec<ShardReport>,
    /// Objects and the bytes of their payloads, by tenant.
    pub tenants: BTreeMap<Box<str>, (u64, u64)>,
    /// Removals that are noted.
    pub removals: u64,
    /// What is wrong with the removal logs, a line each.
    pub doubts: Vec<String>,
    /// What else lies there.
    pub foreign: Vec<String>,
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

/// What proving a root has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Shard files that could be opened.
    pub shards: u64,
    /// Records that count.
    pub objects: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Pairs of records that count and share bytes.
    pub overlaps: u64,
    /// Records whose payload is not the one that was written.
    pub corrupt: u64,
    /// Headers that are torn or damaged: their writes were interrupted, or they have rotten.
    pub torn: u64,
    /// All that is wrong, in words.
    pub faults: Vec<Fault>,
}

/// What a recovery has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The newest version of each key and all its records.
    pub index: Index,
    /// Keys in it.
    pub objects: u64,
    /// Records of versions that a newer one has replaced.
    pub stale: u64,
    /// Records that were removed, and that a crash has left.
    pub removed: u64,
    /// Headers that are torn or damaged, and blocks that cannot be read.
    pub corrupt: u64,
    /// Whole records of which nobody can tell whether they live: their shard file has lost its superblocks, or a removal
    /// log is damaged. They are not in the index.
    pub unproven: u64,
    /// What was odd, a line each.
    pub remarks: Vec<String>,
    /// Removals that were dropped, for nothing needs them.
    pub forgotten: u64,
}

/// A root, what is wrong with its shard files, and what was removed.
struct Looked {
    root: Root,
    troubles: Vec<(u32, Error)>,
    removals: Arc<Removals>,
}

async fn look(disk: Arc<dyn Disk>) -> Result<Looked> {
    let (root, troubles) = Root::look(disk).await?;
    let removals = Arc::new(root.removals().await?);
    Ok(Looked {
        root,
        troubles,
        removals,
    })
}

impl Looked {
    /// Bytes of all shard files that can be listed.
    fn total(&self) -> u64 {
        self.root.all().iter().map(|shard| shard.capacity).sum()
    }
}

/// What a root holds, without reading payloads.
///
/// # Errors
/// As [`Root::open`], but for shard files that are not as they should be.
pub async fn inspect(disk: Arc<dyn Disk>, progress: Progress<'_>) -> Result<Report> {
    let looked = look(disk).await?;
    let root = &looked.root;
    let mut report = Report {
        root: root.id(),
        layout: root.layout(),
        shards: Vec::new(),
        tenants: BTreeMap::new(),
        removals: looked.removals.count(),
        doubts: looked.removals.doubts().to_vec(),
        foreign: Vec::new(),
    };
    let names = root.disk().list().await?;
    let foreign = names.into_iter().filter(|file| !is_ours(&file.name));
    report.foreign = foreign.map(|file| file.name).collect();
    let infos = root.shards();
    let (mut done, total) = (0, looked.total());
    for index in 0..report.layout.shards {
        let trouble = looked.troubles.iter().find(|(of, _)| *of == index);
        let info = infos.iter().find(|info| info.index == index);
        let mut row = ShardReport {
            name: shard::name(index),
            info: info.copied(),
            counts: ScanCounts::default(),
            bytes: 0,
            trouble: trouble.map(|(_, error)| error.to_string()),
        };
        if info.is_some() {
            let mut scan = root.scan(index, &looked.removals)?;
            scan.tell_all();
            loop {
                let page = scan.next_page().await?;
                for found in &page {
                    row.bytes += found.extent.len;
                    let tenant = report.tenants.entry(found.tenant.clone()).or_default();
                    tenant.0 += 1;
                    tenant.1 += found.len;
                }
                progress(done + scan.passed(), total);
                if page.is_empty() {
                    break;
                }
            }
            done += scan.passed();
            row.counts = scan.counts();
        }
        report.shards.push(row);
    }
    Ok(report)
}

/// Reads and proves everything that counts: payloads, chunk tables, superblocks, removal logs. What lies inside a record
/// whose payload is proved is that payload; inside another one, records are looked for.
///
/// # Errors
/// As [`inspect`]. What is damaged is no error but a [`Fault`].
pub async fn verify(disk: Arc<dyn Disk>, progress: Progress<'_>) -> Result<Verified> {
    let looked = look(disk).await?;
    let mut verified = Verified::default();
    for (index, error) in &looked.troubles {
        verified.fault(&shard::name(*index), 0, None, error.to_string());
    }
    for doubt in looked.removals.doubts() {
        let file = doubt.split([':', ' ']).next().unwrap_or_default();
        verified.fault(file, 0, None, doubt.clone());
    }
    let (mut done, total) = (0, looked.total());
    for shard in looked.root.all() {
        verified.shards += 1;
        let mut told = |passed: u64| progress(done + passed, total);
        verify_shard(&looked, &shard, &mut verified, &mut told).await?;
        done += shard.capacity;
    }
    Ok(verified)
}

async fn verify_shard(
    looked: &Looked,
    shard: &Shard,
    verified: &mut Verified,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<()> {
    let mut scan = looked.root.scan(shard.index, &looked.removals)?;
    scan.tell_all();
    let name = shard.name();
    // Records whose payload is not theirs: others may lie inside of them.
    let mut broken: Vec<(Extent, ObjectKey)> = Vec::new();
    while let Some(header) = scan.next_record().await? {
        // Its buffers would be held while others are waited for.
        scan.rest();
        verified.objects += 1;
        verified.bytes += header.len;
        broken.retain(|(extent, _)| extent.overlaps(header.extent));
        let object = (header.tenant.clone(), header.key.clone(), header.ticket);
        let at = shard.start + header.extent.offset;
        for (extent, key) in &broken {
            verified.overlaps += 1;
            let what = format!(
                "it shares bytes with the record of {key} at {}",
                shard.start + extent.offset
            );
            verified.fault(&name, at, Some(object.clone()), what);
        }
        if let Some((offset, what)) = payload_fault(&looked.root, shard, &header).await? {
            verified.corrupt += 1;
            verified.fault(&name, offset, Some(object), what);
            broken.push((header.extent, header.key));
            scan.step_into(header.extent);
        }
        progress(scan.passed());
    }
    let counts = scan.counts();
    verified.torn += counts.damaged;
    if counts.unreadable > 0 {
        let what = format!("{} blocks cannot be read", counts.unreadable);
        verified.fault(&name, 0, None, what);
    }
    Ok(())
}

impl Verified {
    fn fault(
        &mut self,
        file: &str,
        offset: u64,
        object: Option<(Box<str>, ObjectKey, Ticket)>,
        what: String,
    ) {
        self.faults.push(Fault {
            file: file.into(),
            offset,
            object,
            what,
        });
    }
}

/// What is wrong with the payload of a record, and from which byte of its file on.
async fn payload_fault(
    root: &Root,
    shard: &Shard,
    header: &Header,
) -> Result<Option<(u64, String)>> {
    let at = shard.start + header.payload_at();
    let mut summer = Summer::default();
    match sum_payload(root, shard, header, &mut summer).await {
        Ok(()) => {}
        Err(error) if error.code() == Code::FileReadFail => {
            return Ok(Some((at, error.to_string())));
        }
        Err(error) => return Err(error),
    }
    let crc = summer.crc();
    let here = summer.finish();
    if header.table.is_empty() {
        let fault = (at, "the payload does not have its sum".to_owned());
        return Ok((crc != header.crc).then_some(fault));
    }
    let table = ChunkTable::from_sums(header.len, header.table.clone());
    if !table.is_ok_and(|table| table.object_crc() == header.crc) {
        let what = damaged("its chunk table does not combine to its sum").to_string();
        return Ok(Some((shard.start + header.extent.offset, what)));
    }
    let differs = |(here, sum): (&Crc32, &Crc32)| here != sum;
    let bad = here.sums().iter().zip(&header.table).position(differs);
    Ok(bad.map(|chunk| {
        let what = format!("chunk {chunk} of the payload does not have its sum");
        (at + (chunk * CHUNK) as u64, what)
    }))
}

async fn sum_payload(
    root: &Root,
    shard: &Shard,
    header: &Header,
    summer: &mut Summer,
) -> Result<()> {
    let file = shard.file();
    let start = shard.start + header.extent.offset;
    let at = shard.start + header.payload_at();
    let body = at..at + payload_len(header.len);
    let (head, mut flow) = Inflow::start(root.disk(), &file, start..start + BLOCK, body).await?;
    land(head).await?;
    let mut left = header.len;
    while let Some(buffer) = flow.next().await? {
        let here = left.min(buffer.len() as u64);
        summer.update(&buffer[..here as usize]);
        left -= here;
        flow.again(buffer);
    }
    Ok(())
}

/// What to do beside finding out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logs {
    /// The removal logs stay as they are: processes may be there that write them.
    #[default]
    Keep,
    /// One log takes the place of all, without what nothing needs any more. No process may have the root.
    Compact,
}

/// Finds out what a root holds from its headers alone: the newest version of each key, without what was removed.
///
/// # Errors
/// As [`inspect`].
pub async fn recover(disk: Arc<dyn Disk>, logs: Logs, progress: Progress<'_>) -> Result<Recovered> {
    let looked = look(disk).await?;
    let mut found = Newest::default();
    let mut counts = ScanCounts::default();
    let mut seen = Vec::new();
    let (mut done, total) = (0, looked.total());
    for shard in looked.root.all() {
        let mut scan = looked.root.scan(shard.index, &looked.removals)?;
        if logs == Logs::Compact {
            scan.remember();
        }
        loop {
            let page = scan.next_page().await?;
            progress(done + scan.passed(), total);
            if page.is_empty() {
                break;
            }
            page.into_iter().for_each(|one| found.add(shard.index, one));
        }
        done += scan.passed();
        counts.add(&scan.counts());
        seen.append(&mut scan.seen());
    }
    let mut remarks: Vec<String> = looked
        .troubles
        .iter()
        .map(|(_, error)| error.to_string())
        .chain(looked.removals.doubts().iter().cloned())
        .collect();
    let mut forgotten = 0;
    if logs == Logs::Compact {
        if remarks.is_empty() && counts.unreadable == 0 {
            forgotten = looked.root.compact(&seen).await?;
        } else {
            remarks.push("the removal logs stay as they are: not everything could be read".into());
        }
    }
    let objects = found.by_key.len() as u64;
    let entries = found.by_key.into_values().flatten().collect();
    Ok(Recovered {
        index: Index {
            root: looked.root.id(),
            entries,
        },
        objects,
        stale: found.stale,
        removed: counts.removed,
        corrupt: counts.damaged + counts.unreadable,
        unproven: counts.unproven,
        remarks,
        forgotten,
    })
}

/// Records, each with the number of its shard file.
type Placed = Vec<(u32, Found)>;

/// All records of the newest version of each key.
#[derive(Default)]
struct Newest {
    by_key: BTreeMap<(Box<str>, ObjectKey), Placed>,
    stale: u64,
}

impl Newest {
    fn add(&mut self, shard: u32, found: Found) {
        let key = (found.tenant.clone(), found.key.clone());
        let known = self.by_key.entry(key).or_default();
        match known.first().map(|(_, one)| one.ticket) {
            Some(newest) if newest > found.ticket => self.stale += 1,
            Some(newest) if newest == found.ticket => known.push((shard, found)),
            _ => {
                self.stale += known.len() as u64;
                *known = vec![(shard, found)];
            }
        }
    }
}
