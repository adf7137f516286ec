//! What the OS may touch: physical memory protection.

use arrayvec::ArrayVec;
use poorwill_devicetree::Machine;
use poorwill_memory::PhysRange;

use crate::arch::csr;

/// Entries that can be had: eight for each of `pmpcfg0` and `pmpcfg2`.
const ENTRIES: usize = 16;

/// PMP configuration of an entry (privileged specification, 3.7.1).
mod config {
    /// Off, or no access for S and U mode.
    pub(super) const NOTHING: u8 = 0;
    /// Read.
    pub(super) const READ: u8 = 0b001;
    /// Read, write, execute.
    pub(super) const ALL: u8 = 0b111;
    /// The address register names a naturally aligned power of two.
    pub(super) const NAPOT: u8 = 0b11 << 3;
}

/// The PMP entries of every hart, lowest first, which is the one that decides.
#[derive(Debug)]
pub(crate) struct Fence {
    addresses: ArrayVec<u64, ENTRIES>,
    configs: [u8; ENTRIES],
}

impl Fence {
    /// Fences off the firmware, further ranges of its own, and the devices that
    /// only machine mode may touch; all else is the OS's. `readable` is a part of
    /// the firmware's memory that the OS may read.
    ///
    /// What comes first is certain to find an entry. QEMU's machines need at
    /// most thirteen: one for what is readable, four for the firmware, one for a
    /// flash bank, one to six for devices, and the one for all else.
    pub(crate) fn new(
        readable: Option<PhysRange>,
        firmware: [PhysRange; 2],
        own: impl IntoIterator<Item = PhysRange>,
        machine: &Machine,
    ) -> Self {
        let mut fence = Fence {
            addresses: ArrayVec::new(),
            configs: [0; ENTRIES],
        };
        // Before the firmware's, which would decide otherwise.
        for block in readable.into_iter().flat_map(aligned_blocks) {
            fence.push(napot(block), config::READ | config::NAPOT);
        }
        let devices = in_pages(&machine.machine_only);
        for range in firmware.into_iter().chain(own).chain(devices) {
            for block in aligned_blocks(range) {
                fence.push(napot(block), config::NOTHING | config::NAPOT);
            }
        }
        // All ones: everything.
        fence.push(u64::MAX, config::ALL | config::NAPOT);
        fence
    }

    /// Adds an entry. The last place is for "all else"; should a machine have
    /// more ranges than fit, the later ones stay unfenced rather than the OS
    /// without memory.
    fn push(&mut self, address: u64, config: u8) {
        let index = self.addresses.len();
        let last = config & config::ALL == config::ALL;
        if index < ENTRIES - 1 || last {
            self.addresses.push(address);
            self.configs[index] = config;
        }
    }

    /// Sets the calling hart's PMP.
    pub(crate) fn raise(&self) {
        macro_rules! write_addresses {
            ($($index:literal)*) => {
                $(if let Some(address) = self.addresses.get($index) {
                    // SAFETY: entries bind only S and U mode, as none is locked.
                    // A hart with fewer entries lacks the register; the write
                    // is skipped.
                    unsafe { csr::try_write::<{ csr::PMPADDR0 + $index }>(*address) };
                })*
            };
        }
        write_addresses!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        let (low, high) = self.configs.split_at(8);
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        // SAFETY: as above.
        unsafe {
            csr::write::<{ csr::PMPCFG0 }>(word(low));
            csr::try_write::<{ csr::PMPCFG2 }>(word(high));
        }
        crate::arch::fence::all();
    }
}

/// The address register for a naturally aligned power of two.
fn napot(range: PhysRange) -> u64 {
    (range.start >> 2) | ((range.length() >> 3) - 1)
}

/// The ranges grown to whole pages, ascending, those that touch joined: devices
/// that share a page or lie side by side cost one entry instead of dozens.
fn in_pages(ranges: &[PhysRange]) -> ArrayVec<PhysRange, ENTRIES> {
    const PAGE: u64 = poorwill_memory::PAGE_BYTES;
    let mut pages: ArrayVec<PhysRange, ENTRIES> = ranges
        .iter()
        .map(|range| PhysRange {
            start: range.start / PAGE * PAGE,
            end: range.end.next_multiple_of(PAGE),
        })
        .take(ENTRIES)
        .collect();
    pages.sort_unstable_by_key(|range| range.start);
    let mut joined: ArrayVec<PhysRange, ENTRIES> = ArrayVec::new();
    for range in pages {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Cuts a range of whole pages into naturally aligned powers of two.
fn aligned_blocks(range: PhysRange) -> impl Iterator<Item = PhysRange> {
    let mut start = range.start;
    core::iter::from_fn(move || {
        let left = range.end.checked_sub(start).filter(|left| *left > 0)?;
        let size = (1 << left.ilog2()).min(1 << start.trailing_zeros().min(63));
        let block = PhysRange::new(start, size);
        start += size;
        Some(block)
    })
}
