//! Errors of the system in the words of the house: what was being done to which file, and what the kernel said.

use std::{fmt, io, path::Path};
use ziggurat_base::{Code, Error};

/// What was being done to a file. The kind decides the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Reading this many bytes at this offset.
    Read { offset: u64, len: u64 },
    /// Writing this many bytes at this offset.
    Write { offset: u64, len: u64 },
    /// Making what was written durable.
    Sync,
    /// Giving a range back to the filesystem.
    Punch { offset: u64, len: u64 },
    /// Making a file of this length.
    Create { len: u64 },
    /// Opening.
    Open,
    /// Removing the name.
    Remove,
    /// Giving it another name.
    Rename,
    /// Making the names of the directory durable.
    SyncNames,
    /// Reading the names of the directory.
    List,
    /// Asking how much room there is.
    Space,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { offset, len } => write!(f, "read of {len} bytes at {offset} of"),
            Self::Write { offset, len } => write!(f, "write of {len} bytes at {offset} of"),
            Self::Sync => f.write_str("data sync of"),
            Self::Punch { offset, len } => write!(f, "release of {len} bytes at {offset} of"),
            Self::Create { len } => write!(f, "create with {len} bytes of"),
            Self::Open => f.write_str("open of"),
            Self::Remove => f.write_str("remove of"),
            Self::Rename => f.write_str("rename of"),
            Self::SyncNames => f.write_str("sync of the names in"),
            Self::List => f.write_str("list of"),
            Self::Space => f.write_str("question for the room of"),
        }
    }
}

/// The error of a call that the kernel refused.
pub(crate) fn refused(doing: Doing, path: &Path, cause: &io::Error) -> Error {
    let what = format!("{doing} {}: {cause}{}", path.display(), mend(cause));
    Error::new(code(doing, cause), what)
}

/// The error of a file that is shorter than it was when it was opened.
pub(crate) fn too_short(doing: Doing, path: &Path, end: u64) -> Error {
    let what = format!(
        "{doing} {}: the file ends at {end}; somebody else has cut it since it was opened",
        path.display()
    );
    Error::new(Code::FileReadFail, what)
}

fn code(doing: Doing, cause: &io::Error) -> Code {
    match (cause.raw_os_error(), doing) {
        (Some(libc::ENOSPC | libc::EDQUOT), _) => Code::NoAvailableHandle,
        (Some(libc::EOPNOTSUPP), Doing::Punch { .. }) => Code::NotSupported,
        (Some(libc::ENOENT), _) => Code::FileNotFound,
        (_, Doing::Read { .. } | Doing::List | Doing::Space) => Code::FileReadFail,
        (_, Doing::Open | Doing::Create { .. }) => Code::FileOpenFail,
        _ => Code::FileWriteFail,
    }
}

fn mend(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENOSPC) => "; free some space, or give the store less",
        Some(libc::EDQUOT) => "; raise the quota, or give the store less",
        Some(libc::EROFS) => "; mount it for writing, or give another directory",
        Some(libc::EACCES | libc::EPERM) => "; give this user the right to read and write it",
        Some(libc::EIO) => "; look at the kernel's log: the device fails",
        Some(libc::EMFILE) => "; raise the limit of open files (ulimit -n)",
        Some(libc::ELOOP) => {
            "; it is a symbolic link, which is not followed: put the file itself there"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::{Doing, refused, too_short};
    use std::{io, path::Path};
    use ziggurat_base::Code;

    #[test]
    fn the_code_says_what_to_do_and_the_text_what_was_done() {
        let write = Doing::Write {
            offset: 4096,
            len: 512,
        };
        let read = Doing::Read {
            offset: 0,
            len: 512,
        };
        let cases = [
            (write, libc::ENOSPC, Code::NoAvailableHandle),
            (write, libc::EDQUOT, Code::NoAvailableHandle),
            (write, libc::EIO, Code::FileWriteFail),
            (read, libc::EIO, Code::FileReadFail),
            (Doing::Sync, libc::EIO, Code::FileWriteFail),
            (Doing::Open, libc::ENOENT, Code::FileNotFound),
            (Doing::Open, libc::EACCES, Code::FileOpenFail),
            (
                Doing::Create { len: 1 },
                libc::ENOSPC,
                Code::NoAvailableHandle,
            ),
        ];
        for (doing, number, code) in cases {
            let cause = io::Error::from_raw_os_error(number);
            let error = refused(doing, Path::new("d/f"), &cause);
            assert_eq!(error.code(), code, "{error}");
            assert!(error.what().contains("d/f") && error.what().contains("os error"));
        }
        let text = refused(
            write,
            Path::new("d/f"),
            &io::Error::from_raw_os_error(libc::EIO),
        );
        assert!(
            text.what()
                .starts_with("write of 512 bytes at 4096 of d/f: ")
        );
        let text = too_short(read, Path::new("d/f"), 100);
        assert!(text.what().contains("ends at 100"));
    }
}
