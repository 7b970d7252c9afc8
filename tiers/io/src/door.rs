//! What every engine checks before it starts anything: names, alignment and ranges.

use crate::{
    buffer::Buffer,
    disk::{Geometry, Request},
};
use std::fmt::Display;
use ziggurat_base::{Code, Error, Result};

/// Longest name of a file, in bytes; what Linux filesystems take.
const NAME_LEN_MAX: usize = 255;

/// A plain file name: not a path, not the directory itself.
///
/// # Errors
/// [`Code::InvalidParams`].
pub(crate) fn check_name(name: &str) -> Result<()> {
    let plain = !matches!(name, "" | "." | "..")
        && name.len() <= NAME_LEN_MAX
        && !name.contains(['/', '\0']);
    plain.then_some(()).ok_or_else(|| {
        let what = format!(
            "`{}` is no file name; use 1 to {NAME_LEN_MAX} bytes without `/`",
            name.escape_debug()
        );
        Error::new(Code::InvalidParams, what)
    })
}

impl Request {
    /// The buffer, when there is one.
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => Some(buffer),
            Self::Sync => None,
        }
    }
}

/// Whether a request to a file of `len` bytes is aligned and inside of it.
///
/// # Errors
/// [`Code::FileInvalidBuffer`] for what is not aligned, [`Code::InvalidParams`] for what ends behind the file.
pub(crate) fn check(
    geometry: Geometry,
    name: impl Display,
    len: u64,
    request: &Request,
) -> Result<()> {
    let (doing, offset, buffer) = match request {
        Request::Read { offset, buffer } => ("read", *offset, buffer),
        Request::Write { offset, buffer, .. } => ("write", *offset, buffer),
        Request::Sync => return Ok(()),
    };
    let bytes = buffer.len() as u64;
    let block = u64::from(geometry.block);
    let address = buffer.as_ptr().addr();
    if !offset.is_multiple_of(block)
        || !bytes.is_multiple_of(block)
        || !address.is_multiple_of(geometry.memory as usize)
    {
        let what = format!(
            "{doing} of {bytes} bytes at {offset} of `{name}`, memory at {address:#x}: the disk wants offsets and lengths \
             in multiples of {block}, addresses in multiples of {}",
            geometry.memory
        );
        return Err(Error::new(Code::FileInvalidBuffer, what));
    }
    if offset.checked_add(bytes).is_none_or(|end| end > len) {
        let what = format!("{doing} of {bytes} bytes at {offset} of `{name}`, which has {len}");
        return Err(Error::new(Code::InvalidParams, what));
    }
    Ok(())
}

/// Whether a range of whole blocks lies inside a file of `len` bytes.
///
/// # Errors
/// [`Code::InvalidParams`].
pub(crate) fn check_range(
    geometry: Geometry,
    name: impl Display,
    len: u64,
    offset: u64,
    bytes: u64,
) -> Result<()> {
    let block = u64::from(geometry.block);
    let inside = offset.checked_add(bytes).is_some_and(|end| end <= len);
    if inside && offset.is_multiple_of(block) && bytes.is_multiple_of(block) && bytes > 0 {
        return Ok(());
    }
    let what = format!(
        "{bytes} bytes at {offset} are not a range of whole blocks of {block} bytes inside `{name}`, which has {len}"
    );
    Err(Error::new(Code::InvalidParams, what))
}

#[cfg(test)]
mod tests {
    use super::{check, check_name, check_range};
    use crate::{Geometry, Pool, Request};
    use ziggurat_base::Code;

    const GEOMETRY: Geometry = Geometry {
        memory: 512,
        block: 512,
        direct: true,
    };

    #[test]
    fn names_are_not_paths() {
        for good in ["a", "000017.log", ".hidden", "ü"] {
            check_name(good).unwrap();
        }
        for bad in ["", ".", "..", "a/b", "/", "a\0b", &"x".repeat(256)] {
            let error = check_name(bad).unwrap_err();
            assert_eq!(error.code(), Code::InvalidParams, "{bad:?}");
        }
    }

    #[test]
    fn unaligned_and_outlying_requests_are_told_apart() {
        let pool = Pool::new(1 << 16).unwrap();
        let code = |offset, len| {
            let buffer = pool.try_take(len).unwrap();
            check(GEOMETRY, "f", 4096, &Request::Read { offset, buffer })
                .map_err(|error| error.code())
        };
        assert_eq!(code(0, 4096), Ok(()));
        assert_eq!(code(3584, 512), Ok(()));
        assert_eq!(code(1, 512), Err(Code::FileInvalidBuffer));
        assert_eq!(code(0, 513), Err(Code::FileInvalidBuffer));
        assert_eq!(code(4096, 512), Err(Code::InvalidParams));
        assert_eq!(code(u64::MAX - 511, 512), Err(Code::InvalidParams));
    }

    #[test]
    fn holes_are_whole_blocks_inside_the_file() {
        check_range(GEOMETRY, "f", 4096, 512, 3584).unwrap();
        for (offset, len) in [(0, 0), (1, 512), (0, 511), (3584, 1024), (u64::MAX, 512)] {
            assert!(check_range(GEOMETRY, "f", 4096, offset, len).is_err());
        }
    }
}
