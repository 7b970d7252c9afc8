//! Identifiers. A number with a type, so that two of them cannot be swapped.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A tenant, interned by the metadata partition. 0 is the tenant `default`.
    TenantId(u16),
    "t"
);
id!(
    /// One contribution of space by one node to one tier; never reused within an era.
    SegmentId(u32),
    "s"
);
id!(
    /// One incarnation of a process (node or client) as its metadata partition knows it: a restart is another member.
    MemberId(u64),
    "m"
);

impl MemberId {
    /// Nobody: who a shard file belongs to. Every client opens it itself.
    pub const NOBODY: Self = Self(0);
}

/// What outlives the processes that use it: a directory of the SSD tier, or a shard file of a shared filesystem. 128 bits
/// that live in it; it keeps its number wherever it is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u128);

impl fmt::Display for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
