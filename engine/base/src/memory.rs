//! Memory that a node offers: one mapping per segment, addressed by offset.
//!
//! Readers and writers of other processes and of other threads touch it without a common lock; the engine keeps them
//! apart by leases and tickets, and checksums catch what those rules cannot (a reader whose lease ended meanwhile). So a
//! [`Region`] hands out no references that outlive a call: it copies in and out through raw pointers, and lends a window
//! to a closure where the kernel is to move the bytes ([`Region::fill`], [`Region::look`]).

use crate::{
    Code, Crc32, Error,
    copy::{Caching, raw_copy_and_sum, raw_stream_and_sum},
};
use std::{ffi::CString, io, os::fd::FromRawFd, os::fd::OwnedFd, ptr::NonNull};

/// Which pages to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Whatever the kernel gives, with a request for transparent huge pages.
    #[default]
    Normal,
    /// Reserved huge pages of 2 MiB; refused when the pool has too few.
    Huge,
}

/// What a [`Region`] should be.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// Size in bytes; rounded up to whole pages.
    pub len: u64,
    /// Page size.
    pub pages: Pages,
    /// Touch every page now, so that no transfer pays for it later.
    pub populate: bool,
    /// Bind the pages to this NUMA node.
    pub numa_node: Option<u32>,
    /// Shown in `/proc/PID/maps`.
    pub name: String,
}

/// A mapping of a memory file that lives as long as the value.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: the mapping is plain memory owned by the value; every access goes through raw copies that are documented to
// race harmlessly, and unmapping needs `&mut` (drop).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

const HUGE_PAGE: u64 = 2 << 20;

impl Region {
    /// Makes a memory file of the given size and maps it.
    ///
    /// # Errors
    /// [`Code::NoAvailableHandle`] when the machine does not have the memory, [`Code::InvalidParams`] for a size of 0 or
    /// a NUMA node that does not exist.
    pub fn create(options: &RegionOptions) -> Result<Self, Error> {
        let page = match options.pages {
            Pages::Normal => 4096,
            Pages::Huge => HUGE_PAGE,
        };
        let len = usize::try_from(options.len.next_multiple_of(page)).unwrap_or(0);
        if len == 0 {
            return Err(Error::new(
                Code::InvalidParams,
                format!("a memory region of {} bytes cannot be mapped", options.len),
            ));
        }
        let file = memory_file(options)?;
        let region = map(file, len, options)?;
        region.advise(options)?;
        Ok(region)
    }

    /// Size in bytes, a whole number of pages.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Never: a region has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The memory file, for passing to another process of this host.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Copies `source` to `offset` and sums it, past the cache when it is large.
    ///
    /// # Errors
    /// [`Code::InvalidReplica`] when the range is not inside the region.
    pub fn copy_in(&self, offset: u64, source: &[u8]) -> Result<Crc32, Error> {
        let target = self.window(offset, source.len())?;
        // SAFETY: the window is inside the mapping, `source` is a live borrow outside of it.
        Ok(unsafe { raw_stream_and_sum(target, source.as_ptr(), source.len()) })
    }

    /// Copies from `offset` into `target` and sums what was copied.
    ///
    /// # Errors
    /// [`Code::InvalidReplica`] when the range is not inside the region.
    pub fn copy_out(
        &self,
        offset: u64,
        target: &mut [u8],
        caching: Caching,
    ) -> Result<Crc32, Error> {
        let source = self.window(offset, target.len())?;
        // SAFETY: the window is inside the mapping, `target` is a unique borrow outside of it.
        Ok(unsafe { raw_copy_and_sum(target.as_mut_ptr(), source, target.len(), caching) })
    }

    /// Lends `len` bytes at `offset` to `fill`, which writes into them: for bytes that the kernel lays down, as a read
    /// from a socket does.
    ///
    /// The caller keeps writers of one range apart, and so every caller of this does: a node by its shelf, which admits
    /// one version to a range, and by the latch of each write, which is held for the length of this call.
    ///
    /// # Errors
    /// [`Code::InvalidReplica`] when the range is not inside the region.
    pub fn fill<R>(
        &self,
        offset: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Error> {
        let start = self.window(offset, len)?;
        // SAFETY: the window is inside the mapping, initialised (the kernel hands out zeroed pages), and lent to no other
        // writer at the same time, as documented. A reader of a version that has lost this range may still copy from it
        // through a raw pointer: it believes nothing that its sums do not prove.
        Ok(fill(unsafe { std::slice::from_raw_parts_mut(start, len) }))
    }

    /// Lends `len` bytes at `offset` to `look`, which may read them: for bytes that the kernel takes, as a write to a
    /// socket does. A newer version may be written there meanwhile: what was seen is believed only when it is proved.
    ///
    /// # Errors
    /// [`Code::InvalidReplica`] when the range is not inside the region.
    pub fn look<R>(
        &self,
        offset: u64,
        len: usize,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Error> {
        let start = self.window(offset, len)?;
        // SAFETY: the window is inside the mapping and initialised. A racing writer can change the bytes under the
        // borrow, never their number; callers pass them on and decide nothing by them before they are proved.
        Ok(look(unsafe { std::slice::from_raw_parts(start, len) }))
    }

    /// Sums `len` bytes at `offset` in place.
    ///
    /// # Errors
    /// [`Code::InvalidReplica`] when the range is not inside the region.
    pub fn sum(&self, offset: u64, len: u64) -> Result<Crc32, Error> {
        let mut step = [0_u8; 4096];
        let mut crc = Crc32::default();
        let mut at = 0;
        while at < len {
            let here = (len - at).min(step.len() as u64) as usize;
            self.copy_out(offset + at, &mut step[..here], Caching::Fill)?;
            crc = crc.then(&step[..here]);
            at += here as u64;
        }
        Ok(crc)
    }

    /// The address of a checked range, for system calls that move bytes to or from it.
    ///
    /// # Errors
    /// [`Code::InvalidReplica`] when the range is not inside the region.
    pub fn window(&self, offset: u64, len: usize) -> Result<*mut u8, Error> {
        let fits = usize::try_from(offset)
            .ok()
            .and_then(|start| start.checked_add(len))
            .is_some_and(|end| end <= self.len);
        if !fits {
            return Err(Error::new(
                Code::InvalidReplica,
                format!(
                    "{len} bytes at {offset} lie outside a segment of {} bytes",
                    self.len
                ),
            ));
        }
        // SAFETY: the offset was just checked to be inside the mapping.
        Ok(unsafe { self.base.as_ptr().add(offset as usize) })
    }

    fn advise(&self, options: &RegionOptions) -> Result<(), Error> {
        let base = self.base.as_ptr().cast();
        if let Some(node) = options.numa_node {
            bind_to_node(base, self.len, node)?;
        }
        // SAFETY: advice about our own mapping; a kernel that does not know it refuses, which changes nothing.
        unsafe {
            libc::madvise(base, self.len, libc::MADV_HUGEPAGE);
            libc::madvise(base, self.len, libc::MADV_DONTFORK);
        }
        if !options.populate {
            return Ok(());
        }
        // SAFETY: as above.
        if unsafe { libc::madvise(base, self.len, libc::MADV_POPULATE_WRITE) } != 0 {
            return Err(no_memory(options.len, &io::Error::last_os_error()));
        }
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are exactly what mmap returned, and nobody can hold a reference into the mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn no_memory(len: u64, cause: &io::Error) -> Error {
    Error::new(
        Code::NoAvailableHandle,
        format!("cannot get {} of memory: {cause}", crate::ByteCount(len)),
    )
}

/// The longest name that the system gives to a memory file.
const FILE_NAME_LEN_MAX: usize = 249;

fn memory_file(options: &RegionOptions) -> Result<OwnedFd, Error> {
    let mut name = format!("ziggurat-{}", options.name).into_bytes();
    // It is only for whoever looks at the process.
    name.truncate(FILE_NAME_LEN_MAX);
    let name = CString::new(name)
        .map_err(|_| Error::new(Code::InvalidParams, "a region's name has a zero byte"))?;
    let huge = match options.pages {
        Pages::Normal => 0,
        Pages::Huge => libc::MFD_HUGETLB | libc::MFD_HUGE_2MB,
    };
    // SAFETY: the name is a valid C string for the duration of the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | huge) };
    if fd < 0 {
        return Err(no_memory(options.len, &io::Error::last_os_error()));
    }
    // SAFETY: the call has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn map(file: OwnedFd, len: usize, options: &RegionOptions) -> Result<Region, Error> {
    use std::os::fd::AsRawFd;
    let size = i64::try_from(len).map_err(|_| Error::from(Code::InvalidParams))?;
    // SAFETY: a system call on our own descriptor.
    if unsafe { libc::ftruncate(file.as_raw_fd(), size) } != 0 {
        return Err(no_memory(options.len, &io::Error::last_os_error()));
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh shared mapping at an address of the kernel's choice cannot disturb any other.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(no_memory(options.len, &io::Error::last_os_error()));
    }
    let base = NonNull::new(base.cast()).expect("mmap never maps page zero here");
    Ok(Region { base, len, file })
}

fn bind_to_node(base: *mut libc::c_void, len: usize, node: u32) -> Result<(), Error> {
    const MPOL_BIND: libc::c_int = 2;
    let unknown = || {
        Error::new(
            Code::InvalidParams,
            format!("NUMA node {node} does not exist on this machine"),
        )
    };
    let mask: libc::c_ulong = 1_u64.checked_shl(node).ok_or_else(unknown)?;
    // SAFETY: mbind reads one word of mask and changes only the placement policy of our own mapping.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            base,
            len,
            MPOL_BIND,
            &raw const mask,
            64_usize,
            0,
        )
    } != 0;
    if failed { Err(unknown()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{Region, RegionOptions};
    use crate::{Code, Crc32, copy::Caching};

    fn region(len: u64) -> Region {
        Region::create(&RegionOptions {
            len,
            name: "test".into(),
            ..RegionOptions::default()
        })
        .unwrap()
    }

    #[test]
    fn bytes_go_in_and_come_out() {
        let region = region(300_000);
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
        let sum = region.copy_in(77, &bytes).unwrap();
        assert_eq!(sum, Crc32::of(&bytes));
        let mut back = vec![0; bytes.len()];
        assert_eq!(region.copy_out(77, &mut back, Caching::Fill).unwrap(), sum);
        assert_eq!(back, bytes);
        assert_eq!(region.sum(77, bytes.len() as u64).unwrap(), sum);
    }

    #[test]
    fn windows_are_lent() {
        let region = region(4096);
        let len = region.fill(100, 3, |window| {
            window.copy_from_slice(b"abc");
            window.len()
        });
        assert_eq!(len.unwrap(), 3);
        assert!(region.look(100, 3, |window| window == b"abc").unwrap());
        assert!(region.fill(4095, 2, |_| ()).is_err());
        assert!(region.look(u64::MAX, 1, |_| ()).is_err());
    }

    #[test]
    fn ranges_are_checked() {
        let region = region(4096);
        for (offset, len) in [(4096, 1), (u64::MAX, 1), (1, 4096)] {
            assert_eq!(
                region.window(offset, len).unwrap_err().code(),
                Code::InvalidReplica
            );
        }
        assert!(region.window(4096, 0).is_ok());
    }

    #[test]
    fn impossible_regions_are_refused_with_the_reason() {
        let empty = Region::create(&RegionOptions::default()).unwrap_err();
        assert_eq!(empty.code(), Code::InvalidParams);
        let nowhere = Region::create(&RegionOptions {
            len: 4096,
            numa_node: Some(63),
            ..RegionOptions::default()
        });
        assert!(nowhere.is_err());
    }
}
