use super::model::READ_FAULT;
use super::*;

const GIB: u64 = 1 << 30;

/// What a map of these ranges is refused for.
fn refused(change: fn(&mut Model), ranges: &[DmaRange]) -> IommuError {
    let mut model = Model::new(true);
    change(&mut model);
    let (mut iommu, mut pages) = started(&model, 20);
    iommu.map(&mut pages, ranges.iter().copied()).unwrap_err()
}

#[test]
fn a_map_that_cannot_be_written_is_refused_by_name() {
    let same = |_: &mut Model| {};
    let odd = writable(0x8000_0000, 0x800);
    assert_eq!(refused(same, &[odd]), IommuError::Misaligned(odd.range));
    let odd = writable(0x8000_0001, PAGE - 1);
    assert_eq!(refused(same, &[odd]), IommuError::Misaligned(odd.range));

    let high = writable((1 << 47) - PAGE, 2 * PAGE);
    let limit = 1 << 47;
    let range = high.range;
    assert_eq!(
        refused(same, &[high]),
        IommuError::OutOfReach { range, limit }
    );
    let range = writable(256 * GIB, PAGE).range;
    let only_sv39 = |model: &mut Model| model.capabilities &= !(1 << 10);
    let limit = 256 * GIB;
    assert_eq!(
        refused(only_sv39, &[writable(256 * GIB, PAGE)]),
        IommuError::OutOfReach { range, limit }
    );
    let narrow = |model: &mut Model| model.capabilities ^= (56 ^ 34) << 32;
    let range = writable(16 * GIB, PAGE).range;
    let limit = 16 * GIB;
    assert_eq!(
        refused(narrow, &[writable(16 * GIB, PAGE)]),
        IommuError::OutOfReach { range, limit }
    );
}

#[test]
fn ranges_that_overlap_are_refused() {
    for (first, second) in [
        (writable(GIB, GIB), writable(GIB, GIB)),
        (writable(GIB, GIB), writable(GIB + 5 * PAGE, PAGE)),
        (writable(GIB + 5 * PAGE, PAGE), read_only(0, 2 * GIB)),
        (writable(GIB + 5 * PAGE, PAGE), writable(GIB, 0x20_0000)),
        (writable(GIB, 7 * PAGE), writable(GIB + 6 * PAGE, PAGE)),
    ] {
        for ranges in [[first, second], [second, first]] {
            let outcome = refused(|_| {}, &ranges);
            assert!(matches!(outcome, IommuError::Overlap(_)), "{outcome}");
        }
    }
}

#[test]
fn addresses_above_sv39_are_mapped_by_sv48() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    let ranges = [writable(0x8000_0000, PAGE), writable(300 * GIB, GIB)];
    let map = iommu.map(&mut pages, ranges.iter().copied()).unwrap();
    iommu
        .set(&mut pages, DeviceId(1), &Context::Mapped(map))
        .unwrap();
    for address in [0x8000_0000, 300 * GIB, 301 * GIB - 8] {
        assert_eq!(model.access((1, address, false)), Ok(address));
    }
    for address in [299 * GIB, 301 * GIB, 0x8000_1000, u64::MAX - 7] {
        assert_eq!(model.access((1, address, false)), Err(READ_FAULT));
    }
}

#[test]
fn the_bound_of_pages_is_reached_and_is_enough() {
    // Each end of each range is a page away from the next GiB.
    let ranges = [
        writable(2 * GIB - PAGE, 2 * PAGE),
        writable(600 * GIB - PAGE, 700 * GIB + 2 * PAGE),
    ];
    let most = IdentityMap::max_pages(2);
    for (count, is_enough) in [(most, true), (most - 2, false)] {
        let model = Model::new(true);
        let (mut iommu, mut pages) = started(&model, count);
        let outcome = iommu.map(&mut pages, ranges.iter().copied());
        assert_eq!(outcome.is_ok(), is_enough, "{outcome:?} with {count}");
    }
}

#[test]
fn a_range_may_be_shut_at_first() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    let shut = DmaRange {
        is_open: false,
        ..writable(GIB, PAGE)
    };
    let ranges = [shut, writable(GIB + PAGE, PAGE)];
    let map = iommu.map(&mut pages, ranges.into_iter()).unwrap();
    let context = Context::Mapped(map);
    iommu.set(&mut pages, DeviceId(8), &context).unwrap();
    assert_eq!(model.access((8, GIB + PAGE, true)), Ok(GIB + PAGE));
    model.access((8, GIB, true)).unwrap_err();
    iommu.set_open(&map, shut.range, true).unwrap();
    assert_eq!(model.access((8, GIB, true)), Ok(GIB));
}

#[test]
fn only_what_a_map_has_is_opened_and_shut() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    let ranges = [writable(GIB, 2 * PAGE), writable(2 * GIB, GIB)];
    let map = iommu.map(&mut pages, ranges.into_iter()).unwrap();
    for (range, error) in [
        (
            PhysRange::new(GIB + 2 * PAGE, PAGE),
            IommuError::Unmapped(GIB + 2 * PAGE),
        ),
        (PhysRange::new(4 * GIB, PAGE), IommuError::NoPages),
        // A part of a large page.
        (PhysRange::new(2 * GIB, PAGE), IommuError::Overlap(2 * GIB)),
    ] {
        for is_open in [false, true] {
            assert_eq!(iommu.set_open(&map, range, is_open), Err(error));
        }
    }
}

#[test]
fn a_range_of_nothing_maps_nothing() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 2);
    let map = iommu
        .map(&mut pages, [writable(GIB, 0)].into_iter())
        .unwrap();
    iommu
        .set(&mut pages, DeviceId(1), &Context::Mapped(map))
        .unwrap();
    assert_eq!(model.access((1, GIB, false)), Err(READ_FAULT));
}
