//! The memory that a node gives: one region per segment, kept while the node lives, whatever becomes of its membership.

use std::sync::Arc;
use ziggurat_base::{
    ByteCount, Code, Error, Result,
    memory::{Pages, Region, RegionOptions},
};

/// How much memory, and of which kind.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Bytes in all.
    pub dram: ByteCount,
    /// Into how many segments of equal size they are divided.
    pub segments: u16,
    /// Which pages to ask for.
    pub pages: Pages,
    /// Touch all memory at the start, so that no put pays for it later.
    pub populate: bool,
    /// Bind the memory to this NUMA node.
    pub numa_node: Option<u32>,
    /// Offer what lies in the memory again to a master that has lost its catalog. Where master and node are one process,
    /// there is nobody to offer it to.
    pub reoffer: bool,
    /// The most bytes that foreign clients may mount here beside `dram`; as much again as `dram` when not set, 0 for none.
    pub hosted_max: Option<ByteCount>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            dram: ByteCount::gib(1),
            segments: 1,
            pages: Pages::Normal,
            populate: false,
            numa_node: None,
            reoffer: true,
            hosted_max: None,
        }
    }
}

impl MemoryOptions {
    /// Maps the memory, one region for each name.
    ///
    /// # Errors
    /// `InvalidParams` for numbers that cannot be, `NoAvailableHandle` when the machine does not have the memory.
    pub fn map(&self, name: impl Fn(u16) -> String) -> Result<Vec<Arc<Region>>> {
        self.check()?;
        let each = ByteCount(self.dram.0 / u64::from(self.segments));
        let map = |number| Ok(Arc::new(self.map_one(name(number), each)?));
        (0..self.segments).map(map).collect()
    }

    fn map_one(&self, name: String, len: ByteCount) -> Result<Region> {
        Region::create(&RegionOptions {
            len: len.0,
            pages: self.pages,
            populate: self.populate,
            numa_node: self.numa_node,
            name,
        })
    }

    /// Maps one more region of the same kind.
    ///
    /// # Errors
    /// `NoAvailableHandle` when the machine does not have the memory.
    pub(crate) fn region(&self, name: String, len: ByteCount) -> Result<Region> {
        is_available(len)?;
        self.map_one(name, len)
    }

    /// The most bytes that foreign clients may mount.
    pub(crate) fn hosted_max(&self) -> ByteCount {
        self.hosted_max.unwrap_or(self.dram)
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(Code::InvalidParams, what));
        if self.segments == 0 {
            return wrong("0 segments: the memory needs at least 1".into());
        }
        let least = ByteCount(4096 * u64::from(self.segments));
        if self.dram < least {
            return wrong(format!(
                "{} of memory is too little: give at least {least}",
                self.dram
            ));
        }
        is_available(self.dram)
    }
}

/// Whether the machine has so much memory, as far as it can be known.
fn is_available(wanted: ByteCount) -> Result<()> {
    match available_memory() {
        Some(available) if wanted > available => Err(Error::new(
            Code::NoAvailableHandle,
            format!(
                "{wanted} of memory was asked for, this machine has {available} available: give less"
            ),
        )),
        _ => Ok(()),
    }
}

/// What the kernel says is available without swapping; `None` where it does not say.
#[must_use]
pub fn available_memory() -> Option<ByteCount> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteCount::kib(kib))
}

#[cfg(test)]
mod tests {
    use super::MemoryOptions;
    use ziggurat_base::{ByteCount, Code};

    #[test]
    fn more_than_the_machine_has_is_refused_by_name() {
        let options = MemoryOptions {
            dram: ByteCount(1 << 60),
            ..MemoryOptions::default()
        };
        let error = options.map(|n| n.to_string()).unwrap_err();
        assert_eq!(error.code(), Code::NoAvailableHandle);
        assert!(error.what().contains("1048576TiB"), "{error}");
    }

    #[test]
    fn memory_is_divided_evenly() {
        let options = MemoryOptions {
            dram: ByteCount::mib(4),
            segments: 4,
            ..MemoryOptions::default()
        };
        let regions = options.map(|n| format!("part-{n}")).unwrap();
        assert!(regions.len() == 4 && regions.iter().all(|r| r.len() == 1 << 20));
        let none = MemoryOptions {
            segments: 0,
            ..options
        };
        assert_eq!(
            none.map(|n| n.to_string()).unwrap_err().code(),
            Code::InvalidParams
        );
    }
}
