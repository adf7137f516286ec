//! Entries of the property `poorwill,functions`.

use super::partition::cells;

/// A register of addresses: its offset, its kind (1: I/O; 2 and 3: memory of 32 and of 64 bits), its
/// length, and whether it may be prefetched.
pub(super) type Bar = (u32, u32, u64, bool);

pub(super) const NVME: &[Bar] = &[(0x10, 3, 0x4000, false)];

/// The entry of a register. `place` has the bits of its function.
pub(super) fn entry(place: u32, (register, kind, length, may_prefetch): &Bar, at: u64) -> String {
    let first = u32::from(*may_prefetch) << 30 | kind << 24 | place | register;
    format!("<{first:#x} {} {}>", cells(at), cells(*length))
}

/// The property `poorwill,functions`; empty without entries.
pub(super) fn property(entries: &[String]) -> String {
    match entries {
        [] => String::new(),
        _ => format!("poorwill,functions = {};", entries.join(", ")),
    }
}
