//! What holds for any maps and devices.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::iommu::table_bytes::max_pages;

/// Unit of random ranges' ends: a page, 2 MiB or 1 GiB, so that leaves of each level occur.
fn end() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..0x8000_u64,
        (0..0x2000_u64).prop_map(|unit| unit << 9),
        (0..600_u64).prop_map(|unit| unit << 18),
    ]
}

/// Disjoint ranges: sorted ends, in pairs.
fn ranges() -> impl Strategy<Value = Vec<DmaRange>> {
    (vec(end(), 0..12), any::<u16>()).prop_map(|(mut ends, rights)| {
        ends.sort_unstable();
        let pairs = ends.chunks_exact(2).enumerate();
        pairs
            .map(|(number, pair)| DmaRange {
                range: PhysRange::new(pair[0] * PAGE, (pair[1] - pair[0]) * PAGE),
                is_writable: rights >> number & 1 != 0,
                is_open: true,
            })
            .collect()
    })
}

/// Device IDs of all levels.
fn device() -> impl Strategy<Value = u32> {
    prop_oneof![0..0x40_u32, 0..0x8000_u32, 0..0x100_0000_u32]
}

/// The addresses at which a map changes, and some others.
fn addresses(ranges: &[DmaRange], others: &[u64]) -> Vec<u64> {
    let ends = ranges
        .iter()
        .flat_map(|range| [range.range.start, range.range.end]);
    let around = ends.flat_map(|end| [end.wrapping_sub(8), end, end + PAGE]);
    around
        .chain(others.iter().map(|page| page * PAGE))
        .chain([TABLES, u64::MAX - 7])
        .collect()
}

fn is_allowed(ranges: &[DmaRange], (_, address, write): Request) -> bool {
    ranges
        .iter()
        .any(|range| range.range.contains(address) && (range.is_writable || !write))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_device_reaches_an_address_if_and_only_if_its_map_has_it(
        is_wide: bool,
        is_late: bool,
        mut maps in vec((device(), ranges()), 1..4),
        others in vec(end(), 20),
        stranger in device(),
        is_shut in vec(any::<bool>(), 8),
    ) {
        maps.sort_unstable_by_key(|(device, _)| *device);
        maps.dedup_by_key(|(device, _)| *device);
        let mut model = Model::new(is_wide);
        model.is_late = is_late;
        let all_ranges = maps.iter().map(|(_, ranges)| ranges.len() as u64).sum();
        let count = maps.len() as u64;
        let mut pages = table_pages(max_pages(count, count, all_ranges));
        let mut iommu = Driver::start(&model, &model, &mut pages, DeviceId(0)).unwrap();
        let mut built = Vec::new();
        for (device, ranges) in &maps {
            let map = iommu.map(&mut pages, ranges.iter().copied()).unwrap();
            iommu.set(&mut pages, DeviceId(*device), &Context::Mapped(map)).unwrap();
            built.push(map);
        }
        let check = |closed: &[u32]| {
            for (device, ranges) in &maps {
                for (_, its) in &maps {
                    for address in addresses(its, &others) {
                        for write in [false, true] {
                            let request = (*device, address, write);
                            let allowed = is_allowed(ranges, request) && !closed.contains(device);
                            let outcome = model.access(request);
                            prop_assert_eq!(outcome.is_ok(), allowed, "{:x?}", request);
                            prop_assert!(outcome.is_err() || outcome == Ok(address));
                        }
                    }
                }
            }
            if !maps.iter().any(|(device, _)| *device == stranger) {
                for address in addresses(&maps[0].1, &others) {
                    prop_assert!(model.access((stranger, address, false)).is_err());
                }
            }
            Ok(())
        };
        check(&[])?;
        for (map, (device, ranges)) in built.iter().zip(&maps) {
            let (shut, open): (Vec<_>, Vec<_>) =
                ranges.iter().copied().zip(is_shut.iter().cycle()).partition(|(_, shut)| **shut);
            for (range, _) in &shut {
                iommu.set_open(map, range.range, false).unwrap();
            }
            let open: Vec<_> = open.into_iter().map(|(range, _)| range).collect();
            for address in addresses(ranges, &others) {
                for write in [false, true] {
                    let request = (*device, address, write);
                    prop_assert_eq!(model.access(request).is_ok(), is_allowed(&open, request));
                }
            }
            for (range, _) in &shut {
                iommu.set_open(map, range.range, true).unwrap();
            }
        }
        check(&[])?;
        let mut closed = Vec::new();
        for (device, _) in &maps {
            iommu.close(DeviceId(*device)).unwrap();
            closed.push(*device);
            check(&closed)?;
        }
    }
}
