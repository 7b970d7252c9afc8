//! The few system calls about files that std does not offer.

use crate::disk::Space;
use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// What a file asks of requests that go past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectAlign {
    /// The kernel or the filesystem does not say.
    Unknown,
    /// It takes no such requests.
    Refused,
    /// Of memory addresses, and of offsets and lengths.
    Known { memory: u32, block: u32 },
}

/// Asks the kernel what direct requests to `file` must be aligned to.
pub(crate) fn direct_align(file: &File) -> io::Result<DirectAlign> {
    // SAFETY: a plain structure of integers, for which zeros are valid.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: an empty path with AT_EMPTY_PATH names the open file; the kernel writes into `found` alone.
    let failed = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &raw mut found,
        )
    } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    if found.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(DirectAlign::Unknown);
    }
    if found.stx_dio_offset_align == 0 {
        return Ok(DirectAlign::Refused);
    }
    Ok(DirectAlign::Known {
        memory: found.stx_dio_mem_align.max(1),
        block: found.stx_dio_offset_align,
    })
}

/// Lets the system drop what it remembers of a file, as far as it likes to.
pub(crate) fn forget_cached(file: &File) {
    // SAFETY: the descriptor is open, and no memory is named. A refusal costs nothing but the advice.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Allocates the first `len` bytes of a file and makes it that long.
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    fallocate(file, 0, 0, len)
}

/// Gives a range of a file back to the filesystem.
pub(crate) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(file, mode, offset, len)
}

fn fallocate(file: &File, mode: libc::c_int, offset: u64, len: u64) -> io::Result<()> {
    let [offset, len] = [offset, len].map(|bytes| libc::off_t::try_from(bytes).ok());
    let (Some(offset), Some(len)) = (offset, len) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    loop {
        // SAFETY: a call on an open file that touches no memory of ours.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) } == 0 {
            return Ok(());
        }
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
    }
}

/// How much room the filesystem of `path` has.
pub(crate) fn space(path: &Path) -> io::Result<Space> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a plain structure of integers, for which zeros are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a valid C string and the kernel writes into `found` alone.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Space {
        total: found.f_blocks * found.f_frsize,
        free: found.f_bavail * found.f_frsize,
    })
}

/// Writes all of a filesystem back: for those that cannot sync a directory.
pub(crate) fn sync_filesystem(directory: &File) -> io::Result<()> {
    // SAFETY: a call on an open file that touches no memory of ours.
    if unsafe { libc::syncfs(directory.as_raw_fd()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A counter that can be read and written as a file; reading waits until it is not zero, and zeroes it.
pub(crate) fn event() -> io::Result<File> {
    // SAFETY: a call that touches no memory of ours.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given us this descriptor, and nobody else knows it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// How many bytes this process may lock in memory; none when there is no limit.
pub(crate) fn memlock_max() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes into `limit` alone.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } != 0;
    (!failed && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
