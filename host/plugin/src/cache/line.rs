//! Cache lines as values, and the memory that holds them.

/// Bytes of a line on all RISC-V machines with Zicbom so far.
pub const LINE_BYTES: usize = 64;

/// The contents of a line.
pub type Line = [u8; LINE_BYTES];

/// Memory as harts and devices see it, in lines that are numbered from 0.
pub trait Visible {
    fn lines(&self) -> usize;

    fn read(&self, number: u32) -> Line;

    /// Replaces the contents of line `number`.
    fn write(&self, number: u32, line: &Line);
}

/// `line`, with `length` bytes from `start` on taken from `from`.
pub(super) fn with_part(line: &Line, from: &Line, start: usize, length: usize) -> Line {
    let mut joined = *line;
    let end = start + length;
    joined[start..end].copy_from_slice(&from[start..end]);
    joined
}

/// The accessed and dirty bits in each entry of a page table.
const ACCESSED_AND_DIRTY: u64 = 0xc0;

/// Whether a device has changed the line: `now` differs from `before` by more than newly set
/// accessed and dirty bits. The page walker sets these bits through the hart's cache, and the
/// plugin does not see it.
pub(super) fn differs_by_device(now: &Line, before: &Line) -> bool {
    // No branch: most lines are equal, and this runs at each store.
    let entries = now.chunks_exact(8).zip(before.chunks_exact(8));
    let differing = entries.map(|(now, before)| {
        let (now, before) = (entry(now), entry(before));
        (now ^ before) & !(now & ACCESSED_AND_DIRTY)
    });
    differing.fold(0, |all, bits| all | bits) != 0
}

fn entry(bytes: &[u8]) -> u64 {
    let mut entry = [0; 8];
    entry.copy_from_slice(bytes);
    u64::from_le_bytes(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walkers_bits_are_no_device() {
        let before = [0x01; LINE_BYTES];
        let mut now = before;
        now[8] |= 0xc0;
        assert!(!differs_by_device(&now, &before));
        // Only software clears these bits, so a cleared bit is a difference.
        assert!(differs_by_device(&before, &now));
        now[9] ^= 1;
        assert!(differs_by_device(&now, &before));
    }

    #[test]
    fn a_part_is_put_in() {
        let joined = with_part(&[1; LINE_BYTES], &[2; LINE_BYTES], 62, 2);
        assert_eq!((joined[61], joined[62], joined[63]), (1, 2, 2));
    }
}
