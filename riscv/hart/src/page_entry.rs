//! Flags of an entry of page tables, and the accesses that a leaf allows (RISC-V privileged
//! specification, 12.3 and 12.4.1).

/// The entry is in use.
pub const VALID: u64 = 1;
/// The page is readable.
pub const READ: u64 = 1 << 1;
/// The page is writable.
pub const WRITE: u64 = 1 << 2;
/// The page is executable.
pub const EXECUTE: u64 = 1 << 3;
/// The page is a program's.
pub const USER: u64 = 1 << 4;
/// The mapping is in all address spaces.
pub const GLOBAL: u64 = 1 << 5;
/// The page was accessed.
pub const ACCESSED: u64 = 1 << 6;
/// The page was written.
pub const DIRTY: u64 = 1 << 7;
/// Memory types of a leaf (Svpbmt).
pub const TYPE: u64 = 3 << 61;

/// An entry with one of these is a leaf.
pub(crate) const LEAF: u64 = READ | WRITE | EXECUTE;
/// Reserved.
pub(crate) const UNKNOWN: u64 = 0x7f << 54;
/// In leaves: one of several entries that map a larger unit.
pub(crate) const NAPOT: u64 = 1 << 63;
/// Bits that only leaves may have.
pub(crate) const LEAF_ONLY: u64 = USER | ACCESSED | DIRTY | TYPE | NAPOT;

/// Kind of an access.
#[expect(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Fetch,
    Load,
    Store,
}

/// The rights of a caller.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// The caller is in U-mode or VU-mode.
    pub user: bool,
    /// S-mode may load from and store to user pages.
    pub sum: bool,
    /// Executable pages are readable.
    pub mxr: bool,
}

impl Rights {
    /// Returns whether a leaf with these flags allows the access.
    #[must_use]
    pub fn allow(self, flags: u64, intent: Intent) -> bool {
        let of_user = flags & USER != 0;
        let in_reach = match intent {
            _ if self.user => of_user,
            Intent::Fetch => !of_user,
            Intent::Load | Intent::Store => !of_user || self.sum,
        };
        let needed = match intent {
            Intent::Fetch => EXECUTE,
            Intent::Load if self.mxr => READ | EXECUTE,
            Intent::Load => READ,
            Intent::Store => WRITE,
        };
        in_reach && flags & needed != 0
    }
}
