use arrayvec::ArrayVec;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::fixup::SLACK;
use crate::reserved::MAX_RESERVED;

/// Bytes left free at the end of a range of memory. Boot loaders relocate themselves there, with
/// heap and stack, and ignore reservations (U-Boot: 10 MiB and its configured sizes).
const LOADER_BYTES: u64 = 64 << 20;

/// End of the addresses that 32-bit devices reach.
const LOW_END: u64 = 1 << 32;

/// Minimum length of the range: kernels map 2 MiB at once. The minimum also keeps the range, and so
/// the OS's memory, unchanged when the firmware or the machine changes a little.
const LEAST_BYTES: u64 = 2 << 20;

/// The number of the rule of [`place`] and [`range_bytes`]. Under another rule an OS has other
/// memory, so older images are refused. Raise this number with every change, so that `poorwill area
/// --for` can predict the refusals.
pub const PLACEMENT_RULE: u16 = 1;

/// Length of the firmware's second range of memory if it needs `bytes`: a power of two, at least 2
/// MiB. `None` if it overflows.
#[must_use]
pub fn range_bytes(bytes: u64) -> Option<u64> {
    bytes.max(LEAST_BYTES).checked_next_power_of_two()
}

/// Places the firmware's second range of memory, of [`range_bytes`]. It is naturally aligned, so it
/// takes a single PMP entry. It lies within `memory` and overlaps no range of `taken`.
///
/// It lies as high as possible in the first range of memory, below the boot loaders' part at its
/// end. Of a range that continues above 4 GiB only the part below counts. So the place is the same
/// at every power-on and for every kernel that is loaded low, unless something else is loaded
/// exactly there.
///
/// `None`: no range has enough room.
#[must_use]
pub fn place(memory: &[PhysRange], taken: &[PhysRange], bytes: u64) -> Option<PhysRange> {
    let bytes = range_bytes(bytes)?;
    // A machine with little memory cannot spare the boot loaders' part.
    [LOADER_BYTES, 0].into_iter().find_map(|spared| {
        let mut ranges = memory.iter();
        ranges.find_map(|range| highest(*range, spared, taken, bytes))
    })
}

/// Chooses the final place of the tree in `blob`, with room to grow by `growth` and the
/// [slack](SLACK). It stays in place if the bytes after it are free memory of the OS (`memory`), and
/// else moves. Without room for the slack in any place it gets a place without. `reserved`: memory
/// that a previous stage left in use, for the OS or for others; `next`: the next stage.
///
/// The new place depends only on these arguments: it is the same at each start.
///
/// `None`: no range of memory has room for it.
#[must_use]
pub fn tree_place(
    memory: &[PhysRange],
    reserved: impl Iterator<Item = PhysRange> + Clone,
    next: PhysRange,
    blob: PhysRange,
    growth: u64,
) -> Option<PhysRange> {
    let grown = PhysRange::new(blob.start, blob.length().checked_add(growth)?);
    [SLACK, 0].into_iter().find_map(|slack| {
        let length = grown.length().checked_add(slack)?;
        place_of_length(memory, reserved.clone(), next, blob, grown, length)
    })
}

/// The tree's place of `length` bytes, at least those of the `grown` blob.
fn place_of_length(
    memory: &[PhysRange],
    reserved: impl Iterator<Item = PhysRange>,
    next: PhysRange,
    blob: PhysRange,
    grown: PhysRange,
    length: u64,
) -> Option<PhysRange> {
    let wanted = PhysRange::new(blob.start, length);
    let mut taken: ArrayVec<PhysRange, { MAX_RESERVED + 2 }> = ArrayVec::new();
    taken.try_push(next).ok()?;
    let mut is_free = !next.overlaps(&wanted);
    for range in reserved {
        is_free &= is_of_blob(range, grown) || !range.overlaps(&wanted);
        taken.try_push(range).ok()?;
    }
    let mut ranges = memory.iter();
    let is_memory = ranges.any(|range| range.start <= wanted.start && wanted.end <= range.end);
    if is_memory && is_free {
        return Some(wanted);
    }
    // The bytes are copied from the old blob, so the new place must not overlap it.
    taken.try_push(blob).ok()?;
    place(memory, &taken, length).map(|place| PhysRange::new(place.start, length))
}

/// Returns whether `reserved` is a reservation of the blob itself, as some boot loaders make it. It
/// begins in the blob's first page and ends at most in the last page of the `grown` blob. A larger
/// reservation may hold something else.
fn is_of_blob(reserved: PhysRange, grown: PhysRange) -> bool {
    let page = |address: u64| address / PAGE_BYTES;
    let last_page = |range: PhysRange| page(range.end.saturating_sub(1));
    reserved.contains(grown.start)
        && page(reserved.start) == page(grown.start)
        && last_page(reserved) <= last_page(grown)
}

/// The highest place within `range`.
fn highest(range: PhysRange, spared: u64, taken: &[PhysRange], bytes: u64) -> Option<PhysRange> {
    let end = if range.start < LOW_END {
        range.end.min(LOW_END)
    } else {
        range.end
    };
    let mut end = end.checked_sub(spared)?;
    // Each iteration but the last moves below one of the taken ranges.
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

    /// Memory of 1 GiB without the firmware's ranges, and a tree of two pages in it.
    const OS: [PhysRange; 2] = [
        PhysRange {
            start: 0x801c_0000,
            end: 0xbbe0_0000,
        },
        PhysRange {
            start: 0xbc00_0000,
            end: 0xc000_0000,
        },
    ];
    const BLOB: PhysRange = PhysRange {
        start: 0xbfe0_0000,
        end: 0xbfe0_1800,
    };

    const NEXT: PhysRange = PhysRange {
        start: 0x8020_0000,
        end: 0x8220_0000,
    };

    /// Bytes of the tree with its growth, and with the slack.
    const GROWN: u64 = 0x3800;
    const WITH_SLACK: u64 = GROWN + SLACK;

    /// Where it goes if these ranges are reserved.
    fn tree_at(blob: PhysRange, reserved: &[PhysRange]) -> Option<PhysRange> {
        tree_place(&OS, reserved.iter().copied(), NEXT, blob, 0x2000)
    }

    #[test]
    fn a_tree_grows_where_it_is_if_nothing_is_in_its_way() {
        let grown = PhysRange::new(BLOB.start, WITH_SLACK);
        for beside in [
            PhysRange::new(BLOB.start - 0x1000, 0x1000),
            PhysRange::new(grown.end, 0x1000),
            // The reservation block has the tree's own range, and may have pages of it.
            BLOB,
            PhysRange::new(BLOB.start, 0x2000),
            PhysRange::new(BLOB.start, 0x4000),
        ] {
            assert_eq!(tree_at(BLOB, &[beside]), Some(grown), "{beside:x?}");
        }
    }

    #[test]
    fn a_tree_that_cannot_grow_goes_to_another_place() {
        let at = PhysRange::new(0xb7c0_0000, WITH_SLACK);
        // The next page, exactly a page on, within the tree's own last page, and within the slack.
        for initrd in [
            0xbfe0_2000,
            0xbfe0_2800,
            0xbfe0_1800,
            0xbfe0_37ff,
            0xbfe0_47ff,
        ] {
            let initrd = PhysRange::new(initrd, 0x10_0000);
            assert_eq!(tree_at(BLOB, &[initrd]), Some(at), "{initrd:x?}");
        }
        // The firmware follows, memory ends (after the growth, too), or it is in ROM.
        for start in [0xbbdf_f000, 0xbfff_f000, 0xbfff_d800, 0x1000] {
            assert_eq!(
                tree_at(PhysRange::new(start, 0x800), &[]).unwrap().start,
                at.start
            );
        }
        let none = PhysRange::new(0, 1 << 40);
        assert_eq!(tree_at(PhysRange::new(u64::MAX - 8, 8), &[none]), None);
    }

    #[test]
    fn a_tree_has_no_slack_where_it_would_cost_the_place() {
        // All memory from the tree on but its growth is taken, and so is all before it.
        let rest = PhysRange::new(BLOB.start + GROWN, 0x20_0000);
        let before = PhysRange::new(0x8000_0000, BLOB.start - 0x8000_0000);
        let in_place = PhysRange::new(BLOB.start, GROWN);
        assert_eq!(tree_at(BLOB, &[rest, before]), Some(in_place));
        // There is one aligned place of 2 MiB, and the tree takes all of it.
        let memory = [PhysRange::new(0x8040_0000, 2 * MIB)];
        let blob = PhysRange::new(0x1000, 2 * MIB - 0x2000);
        let moved = tree_place(&memory, [].into_iter(), NEXT, blob, 0x2000);
        assert_eq!(moved, None, "the next stage is there");
        let next = PhysRange::new(0x8000_0000, MIB);
        let moved = tree_place(&memory, [].into_iter(), next, blob, 0x2000);
        assert_eq!(moved, Some(memory[0]));
    }

    #[test]
    fn a_tree_grows_into_nothing_that_it_merely_begins_in() {
        let at = PhysRange::new(0xb7c0_0000, WITH_SLACK);
        for wide in [
            // From before it, far past it, or to its own end; and from it, far past it.
            PhysRange::new(BLOB.start - 0x10_0000, 0x20_0000),
            PhysRange::new(BLOB.start - 0x1000, 0x2800),
            PhysRange::new(BLOB.start, 0x10_0000),
            PhysRange::new(BLOB.start, 0x4001),
        ] {
            assert_eq!(tree_at(BLOB, &[wide]), Some(at), "{wide:x?}");
        }
        // The next stage is never the tree's own, however small.
        for next in [BLOB, PhysRange::new(BLOB.start, GROWN)] {
            let found = tree_place(&OS, [].into_iter(), next, BLOB, 0x2000);
            assert_eq!(found, Some(at), "{next:x?}");
        }
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
        fn a_tree_is_handed_on_in_free_memory(
            memory in prop::collection::vec(range(), 0..4),
            far in prop::collection::vec(range(), 0..8),
            near in prop::collection::vec((0u64..0x4000, 1u64..0x20_0000), 0..3),
            next in range(),
            blob in (0x2000u64..1 << 34, 64u64..1 << 20),
            growth in 0u64..1 << 16,
        ) {
            let blob = PhysRange::new(blob.0, blob.1);
            let near = near.iter().map(|(offset, length)| PhysRange::new(blob.start - 0x2000 + offset, *length));
            let reserved: Vec<_> = far.into_iter().chain(near).collect();
            if let Some(place) = tree_place(&memory, reserved.iter().copied(), next, blob, growth) {
                let grown = blob.length() + growth;
                prop_assert!([grown, grown + SLACK].contains(&place.length()));
                prop_assert!(memory.iter().any(|range| range.start <= place.start && place.end <= range.end));
                prop_assert!(!next.overlaps(&place));
                let mut over = reserved.iter().filter(|range| range.overlaps(&place));
                if place.start == blob.start {
                    // Nothing that it overlaps has a byte in another page than the grown tree's.
                    let end = place.start + grown;
                    let pages = place.start & !0xfff..end.next_multiple_of(0x1000);
                    let is_own = |range: &PhysRange| {
                        range.contains(blob.start) && pages.start <= range.start && range.end <= pages.end
                    };
                    prop_assert!(over.all(is_own));
                } else {
                    prop_assert!(over.next().is_none() && !place.overlaps(&blob));
                }
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
