use poorwill_memory::PhysRange;

/// Left free at the end of a range of memory: boot loaders relocate themselves there, with
/// heap and stack, and ignore reservations (U-Boot: 10 MiB and what it is configured for).
const LOADER_BYTES: u64 = 64 << 20;

/// The end of the addresses that 32-bit devices reach.
const LOW_END: u64 = 1 << 32;

/// The least length of the range: what kernels map in one go. It also keeps its length,
/// and the OS's memory with it, when the firmware or the machine changes a little.
const LEAST_BYTES: u64 = 2 << 20;

/// Which rule [`place`] and [`range_bytes`] follow. Another rule gives an OS other
/// memory, so that the images of before are refused: whoever changes it raises this
/// number, by which `poorwill area --for` foresees that.
pub const PLACEMENT_RULE: u16 = 1;

/// How long the firmware's second range of memory is, if it needs `bytes`: a power of two,
/// and at least 2 MiB. `None` beyond all addresses.
#[must_use]
pub fn range_bytes(bytes: u64) -> Option<u64> {
    bytes.max(LEAST_BYTES).checked_next_power_of_two()
}

/// Where the firmware's second range of memory goes: at least `bytes`, and 2 MiB, as a
/// naturally aligned power of two, which takes a single PMP entry; within `memory`, and apart
/// from all of `taken`.
///
/// It lies as high as possible in the first range of memory, below what boot loaders use at
/// its end; of a range that continues above 4 GiB only the part below counts. So the place is
/// the same at every power-on, whichever kernel is loaded low, unless something else is
/// loaded exactly there.
///
/// `None`: no range has so much room.
#[must_use]
pub fn place(memory: &[PhysRange], taken: &[PhysRange], bytes: u64) -> Option<PhysRange> {
    let bytes = range_bytes(bytes)?;
    // A machine with little memory cannot spare the room for boot loaders.
    [LOADER_BYTES, 0].into_iter().find_map(|spared| {
        let mut ranges = memory.iter();
        ranges.find_map(|range| highest(*range, spared, taken, bytes))
    })
}

/// The highest place within `range`.
fn highest(range: PhysRange, spared: u64, taken: &[PhysRange], bytes: u64) -> Option<PhysRange> {
    let end = if range.start < LOW_END {
        range.end.min(LOW_END)
    } else {
        range.end
    };
    let mut end = end.checked_sub(spared)?;
    // Each iteration but the last goes below one of the taken ranges.
    for _ in 0..=taken.len() {
        let start = end.checked_sub(bytes)? / bytes * bytes;
        if start < range.start {
            return None;
        }
        let place = PhysRange::new(start, bytes);
        match taken.iter().find(|other| other.overlaps(&place)) {
            None => return Some(place),
            Some(other) => end = other.start,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_lies_below_what_a_boot_loader_moves_to() {
        let memory = [PhysRange::new(0x8000_0000, 1024 * MIB)];
        let place = place(&memory, &[], 3 * MIB / 2).unwrap();
        assert_eq!(place, PhysRange::new(0xbbe0_0000, 2 * MIB));
    }

    #[test]
    fn it_lies_where_all_devices_reach_it() {
        let memory = [PhysRange::new(0x8000_0000, 64 << 30)];
        let place = place(&memory, &[], MIB).unwrap();
        assert!(place.end <= LOW_END - LOADER_BYTES, "{place:?}");
    }

    #[test]
    fn a_kernel_and_its_initramfs_are_stepped_over() {
        let memory = [PhysRange::new(0x8000_0000, 128 * MIB)];
        let initrd = PhysRange::new(0x8300_0000, 30 * MIB);
        let kernel = PhysRange::new(0x8020_0000, 40 * MIB);
        let place = place(&memory, &[kernel, initrd], 2 * MIB).unwrap();
        assert_eq!(place.end, initrd.start);
    }

    #[test]
    fn little_memory_is_enough_where_nobody_needs_its_end() {
        let memory = [PhysRange::new(0x8000_0000, 32 * MIB)];
        let firmware = PhysRange::new(0x8000_0000, 2 * MIB);
        let found = place(&memory, &[firmware], 2 * MIB).unwrap();
        assert_eq!(found, PhysRange::new(0x81e0_0000, 2 * MIB));
        assert_eq!(place(&memory, &[firmware], 32 * MIB), None);
    }

    prop_compose! {
        fn range()(start in 0u64..1 << 34, length in 1u64..1 << 30) -> PhysRange {
            PhysRange::new(start, length)
        }
    }

    proptest! {
        #[test]
        fn it_is_aligned_in_memory_and_apart_from_everything(
            memory in prop::collection::vec(range(), 0..4),
            taken in prop::collection::vec(range(), 0..12),
            bytes in 1u64..64 << 20,
        ) {
            if let Some(place) = place(&memory, &taken, bytes) {
                prop_assert!(place.length() >= bytes && place.length().is_power_of_two());
                prop_assert_eq!(place.start % place.length(), 0);
                prop_assert!(memory.iter().any(|range| range.start <= place.start && place.end <= range.end));
                prop_assert!(!taken.iter().any(|range| range.overlaps(&place)));
            }
        }

        #[test]
        fn it_is_found_wherever_there_is_room(start in 0u64..64, taken in prop::collection::vec(0u64..64, 0..12)) {
            // Sixty-four places of one size, some of them taken.
            let slot = |number: u64| PhysRange::new(number * 2 * MIB, 2 * MIB);
            let taken: Vec<_> = taken.into_iter().chain([start]).map(slot).collect();
            let memory = [PhysRange::new(0, 128 * MIB)];
            let all = (0..64).map(slot).all(|place| taken.contains(&place));
            prop_assert_eq!(place(&memory, &taken, MIB).is_none(), all);
        }
    }
}
