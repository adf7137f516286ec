//! Claims of an SBI caller, against naive models.

use std::collections::BTreeSet;

use poorwill_domain::{
    ClaimError, Domain, FencePages, FenceRange, HartSet, HartSetError, MANY_PAGES,
    MAX_DOMAIN_HARTS, NextStage, Request, Rights,
};
use poorwill_memory::{MemoryMap, PhysRange};
use proptest::prelude::*;

const PAGE: u64 = 4096;
/// Two ranges: one below 4 GiB with a hole, and one that ends at the last page of
/// all addresses.
const MEMORY: [PhysRange; 2] = [
    PhysRange {
        start: 0x8000_0000,
        end: 0x9000_0000,
    },
    PhysRange {
        start: 0xffff_ffff_ffff_0000,
        end: 0xffff_ffff_ffff_f000,
    },
];
const FIRMWARE: PhysRange = PhysRange {
    start: 0x8010_0000,
    end: 0x8020_0000,
};

/// Two ranges of flash: one with something else's behind it, and one that ends oddly.
const FLASH: [PhysRange; 2] = [
    PhysRange {
        start: 0x2000_0000,
        end: 0x2200_0000,
    },
    PhysRange {
        start: 0x2300_0000,
        end: 0x2300_0003,
    },
];

fn domain(ids: impl IntoIterator<Item = u64>) -> Domain {
    Domain {
        harts: HartSet::new(ids).expect("a set"),
        memory: MemoryMap::new(&MEMORY, &[FIRMWARE]).expect("a map"),
        flash: FLASH.into_iter().collect(),
        devices: [PhysRange {
            start: 0,
            end: 1 << 56,
        }]
        .into_iter()
        .collect(),
        registers: <_>::default(),
        foreign: None,
        next_stage: NextStage {
            address: 0x8020_0000,
            argument: 0,
            tree: None,
        },
        rights: Rights::ALL,
    }
}

/// Whether every byte is memory, one range at a time and with room for any sum.
fn is_memory(address: u64, length: u64) -> bool {
    let (start, end) = (
        u128::from(address),
        u128::from(address) + u128::from(length),
    );
    let within = |low: u64, high: u64| u128::from(low) <= start && end <= u128::from(high);
    within(MEMORY[0].start, FIRMWARE.start)
        || within(FIRMWARE.end, MEMORY[0].end)
        || within(MEMORY[1].start, MEMORY[1].end)
}

/// Whether an instruction of two bytes lies in flash, likewise.
fn is_flash(address: u64) -> bool {
    let within = |range: &PhysRange| {
        range.start <= address && u128::from(address) + 2 <= u128::from(range.end)
    };
    FLASH.iter().any(within)
}

/// Numbers near where something changes: edges of memory and flash, powers of two, both ends.
fn number() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        FIRMWARE.start,
        FIRMWARE.end,
        MEMORY[0].start,
        MEMORY[0].end,
        MEMORY[1].start,
        MEMORY[1].end,
        FLASH[0].start,
        FLASH[0].end,
        FLASH[1].start,
        FLASH[1].end,
    ];
    let near = |edge: u64| (0_u64..9).prop_map(move |more| edge.wrapping_add(more).wrapping_sub(4));
    prop_oneof![
        prop::sample::select(edges.to_vec()).prop_flat_map(near),
        (0_u32..64).prop_flat_map(move |bit| near(1 << bit)),
        (0_u64..3 * PAGE).prop_map(|less| u64::MAX - less),
        0_u64..3 * PAGE,
        any::<u64>(),
    ]
}

#[test]
fn where_the_domain_may_execute() {
    let domain = domain([0]);
    for address in [
        0x8000_0000,
        0x800f_fffe,
        0x8020_0000,
        0x8fff_fffe,
        0x2000_0000, // flash
        0x21ff_fffe,
        0x2300_0000,
    ] {
        assert_eq!(
            domain.executable(address).map(|code| code.get()),
            Ok(address)
        );
    }
    for address in [
        0x8000_0001, // odd
        0x800f_ffff, // odd, its second byte the firmware's
        0x8010_0000,
        0x801f_fffe, // the firmware's
        0x9000_0000,
        0x7fff_fffe,
        0x2000_0001, // odd, in flash
        0x1fff_fffe,
        0x2200_0000, // beside flash
        0x2300_0002, // its second byte beside flash
        0,           // no memory
        u64::MAX,
        u64::MAX - 1,
    ] {
        assert_eq!(domain.executable(address), Err(ClaimError::Code(address)));
    }
    assert_eq!(domain.entry().map(|code| code.get()), Ok(0x8020_0000));
    let elsewhere = NextStage {
        address: FIRMWARE.start,
        ..domain.next_stage
    };
    let domain = Domain {
        next_stage: elsewhere,
        ..domain
    };
    assert_eq!(domain.entry(), Err(ClaimError::Code(FIRMWARE.start)));
}

#[test]
fn a_next_stage_may_lie_in_flash_and_bytes_may_not() {
    let domain = domain([0]);
    let in_flash = NextStage {
        address: FLASH[0].start,
        ..domain.next_stage
    };
    let domain = Domain {
        next_stage: in_flash,
        ..domain
    };
    assert_eq!(domain.entry().map(|code| code.get()), Ok(FLASH[0].start));
    // Nothing is written there for an OS, nor saved.
    assert!(domain.bytes(1, FLASH[0].start, 0).is_err());
    let none = Domain {
        flash: [].into_iter().collect(),
        ..domain
    };
    assert_eq!(none.entry(), Err(ClaimError::Code(FLASH[0].start)));
}

#[test]
fn bytes_at_edges() {
    let domain = domain([0]);
    let bytes = |length, low| domain.bytes(length, low, 0).is_ok();
    assert!(bytes(0, 0x8000_0000) && bytes(0, 0x9000_0000) && !bytes(0, 0x8018_0000));
    assert!(bytes(0x10_0000, 0x8000_0000) && !bytes(0x10_0001, 0x8000_0000));
    assert!(bytes(1, 0x8fff_ffff) && !bytes(2, 0x8fff_ffff));
    assert!(!bytes(u64::MAX, 0x8000_0000) && !bytes(u64::MAX - 0x8000_0000 + 2, 0x8000_0000));
    assert!(
        domain.bytes(1, 0x8000_0000, 1).is_err() && domain.bytes(0, 0x8000_0000, u64::MAX).is_err()
    );
    let claimed = domain.bytes(1000, 0x8000_0000, 0).expect("memory");
    assert_eq!(
        (claimed.first(256).address(), claimed.first(256).length()),
        (0x8000_0000, 256)
    );
    assert_eq!(
        (claimed.first(2000).address(), claimed.first(2000).length()),
        (0x8000_0000, 1000)
    );
}

#[test]
fn sets_of_harts_have_bounds() {
    let most = MAX_DOMAIN_HARTS as u64;
    assert_eq!(HartSet::new(0..=most), Err(HartSetError::TooMany));
    assert_eq!(HartSet::new([3, 1, 3]), Err(HartSetError::Twice(3)));
    let set = HartSet::new((0..most).rev()).expect("a set");
    assert!(set.ids().eq(0..most));
    assert!(set.contains(most - 1) && !set.contains(most));
}

#[test]
fn masks_beyond_64_harts_and_at_the_last_ids() {
    let domain = domain((0..100).chain([u64::MAX - 2, u64::MAX - 1]));
    let named = |mask, base| {
        domain
            .harts(mask, base)
            .map(|named| named.ids().collect::<Vec<_>>())
    };
    assert_eq!(named(u64::MAX, 36), Ok((36..100).collect()));
    assert_eq!(
        named(u64::MAX, 37),
        Err(ClaimError::Harts {
            mask: u64::MAX,
            base: 37
        })
    );
    assert_eq!(
        named(0b11, u64::MAX - 2),
        Ok(vec![u64::MAX - 2, u64::MAX - 1])
    );
    // The second bit would be hart 2^64 - 1, the third hart 0.
    assert!(named(0b10, u64::MAX - 1).is_err() && named(0b100, u64::MAX - 1).is_err());
    assert_eq!(named(0, 1 << 40), Ok(vec![]));
    for mask in [0, 1, u64::MAX] {
        assert_eq!(named(mask, u64::MAX).expect("all").len(), 102);
    }
}

#[test]
fn legacy_masks_name_whom_they_can() {
    let domain = domain([0, 2, 63, 64, u64::MAX]);
    let named = |mask| domain.legacy_harts(mask).ids().collect::<Vec<_>>();
    assert_eq!(named(None), [0, 2, 63, 64, u64::MAX]);
    assert_eq!(named(Some(u64::MAX)), [0, 2, 63]);
    assert_eq!(named(Some(0b1110)), [2]);
    assert_eq!(named(Some(0b1010)), []);
    // Who asks for any hart of the machine finds none of another domain.
    let foreign = domain.legacy_harts(Some(u64::MAX));
    assert!((0..200).all(|id| foreign.contains(id) == [0, 2, 63].contains(&id)));
}

#[test]
fn what_a_domain_may_ask_for() {
    let all = domain([0]);
    for request in [Request::SystemReset, Request::SystemSuspend] {
        assert_eq!(all.ask(request), Ok(()));
        let none = Domain {
            rights: Rights::default(),
            ..all.clone()
        };
        assert_eq!(none.ask(request), Err(ClaimError::Request(request)));
    }
    let rights = Rights {
        system_reset: true,
        system_suspend: false,
    };
    let one = Domain { rights, ..all };
    assert_eq!(one.ask(Request::SystemReset), Ok(()));
    assert!(one.ask(Request::SystemSuspend).is_err());
}

/// The pages of a fence; `None`: everything.
fn fenced(start: u64, size: u64) -> Result<Option<Vec<u64>>, ClaimError> {
    Ok(match FenceRange::new(start, size)?.pages() {
        FencePages::Everything => None,
        // One that does not end would not be told from one that is long.
        FencePages::Few(pages) => Some(pages.take(1000).collect()),
    })
}

#[test]
fn fences_at_the_last_address_end() {
    let last = u64::MAX - 0xfff;
    assert_eq!(fenced(last, 0xfff), Ok(Some(vec![last])), "2^52 pages once");
    assert_eq!(fenced(last, 0x1000), Ok(Some(vec![last])));
    assert_eq!(fenced(u64::MAX, 1), Ok(Some(vec![last])));
    assert_eq!(
        fenced(last - 0x1000, 0x1001),
        Ok(Some(vec![last - 0x1000, last]))
    );
    assert!(fenced(last, 0x1001).is_err() && fenced(u64::MAX, 2).is_err());
    assert!(fenced(2, u64::MAX - 1).is_ok() && fenced(3, u64::MAX - 1).is_err());
}

#[test]
fn fences_of_everything_and_of_nothing() {
    for (start, size) in [(0, 0), (0, u64::MAX), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        assert_eq!(fenced(start, size), Ok(None));
    }
    assert_eq!(fenced(0x1000, 0), Ok(Some(vec![])));
    assert_eq!(fenced(u64::MAX, 0), Ok(Some(vec![])));
    assert_eq!(fenced(0x1fff, 2), Ok(Some(vec![0x1000, 0x2000])));
    let many = MANY_PAGES * PAGE;
    assert_eq!(
        fenced(PAGE, many)
            .expect("a range")
            .map(|pages| pages.len()),
        Some(64)
    );
    assert_eq!(fenced(PAGE, many + 1), Ok(None));
    assert_eq!(
        fenced(PAGE + 1, many),
        Ok(None),
        "65 pages, as it begins within one"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn bytes_are_memory(length in number(), low in number(), high in prop_oneof![3 => Just(0_u64), 1 => number()]) {
        let claimed = domain([0]).bytes(length, low, high);
        prop_assert_eq!(claimed.is_ok(), high == 0 && is_memory(low, length));
        if let Ok(bytes) = claimed {
            prop_assert_eq!((bytes.address(), bytes.length()), (low, length));
        } else {
            prop_assert_eq!(claimed, Err(ClaimError::Bytes { length, low, high }));
        }
    }

    #[test]
    fn code_is_memory_or_flash_and_aligned(address in number()) {
        let claimed = domain([0]).executable(address);
        let is_there = is_memory(address, 2) || is_flash(address);
        prop_assert_eq!(claimed.is_ok(), address % 2 == 0 && is_there);
    }

    #[test]
    fn harts_are_the_domains(
        ids in prop::collection::btree_set(prop_oneof![0_u64..80, (0_u64..80).prop_map(|less| u64::MAX - less), any::<u64>()], 1..70),
        mask in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), (0_u32..64).prop_map(|bit| 1 << bit), 0_u64..16],
        base in prop_oneof![0_u64..80, (0_u64..80).prop_map(|less| u64::MAX - less), any::<u64>()],
    ) {
        let domain = domain(ids.iter().copied());
        let named: BTreeSet<u128> = (0..64).filter(|bit| mask >> bit & 1 != 0).map(|bit| u128::from(base) + bit).collect();
        let there: BTreeSet<u128> = ids.iter().map(|id| u128::from(*id)).collect();
        let wanted = if base == u64::MAX { there.clone() } else { named };
        match domain.harts(mask, base) {
            Ok(found) => {
                prop_assert!(wanted.is_subset(&there));
                prop_assert!(found.ids().map(u128::from).eq(wanted.iter().copied()));
                for id in ids.iter().copied().chain([0, base, base.wrapping_add(63), base.wrapping_add(64), base.wrapping_sub(1), u64::MAX]) {
                    prop_assert_eq!(found.contains(id), wanted.contains(&u128::from(id)), "hart {}", id);
                }
            }
            Err(error) => {
                prop_assert!(!wanted.is_subset(&there));
                prop_assert_eq!(error, ClaimError::Harts { mask, base });
            }
        }
        for id in ids.iter().copied().chain([base, u64::MAX]) {
            let claimed = domain.hart(id);
            prop_assert_eq!(claimed, if ids.contains(&id) { Ok(id) } else { Err(ClaimError::Hart(id)) });
        }
    }

    #[test]
    fn fences_are_of_the_pages_of_their_bytes(
        start in number(),
        size in prop_oneof![number(), 0..100 * PAGE],
    ) {
        let end = u128::from(start) + u128::from(size);
        let is_everything = (start == 0 && size == 0) || size == u64::MAX;
        match fenced(start, size) {
            Err(error) => {
                prop_assert!(!is_everything && end > 1 << 64);
                prop_assert_eq!(error, ClaimError::Fence { start, size });
            }
            Ok(pages) => {
                prop_assert!(is_everything || end <= 1 << 64);
                let first = u128::from(start / PAGE);
                let behind = if size == 0 { first } else { end.div_ceil(u128::from(PAGE)) };
                if is_everything || behind - first > u128::from(MANY_PAGES) {
                    prop_assert_eq!(pages, None);
                } else {
                    let touched = (first..behind).map(|page| u64::try_from(page * u128::from(PAGE)).expect("an address"));
                    prop_assert_eq!(pages, Some(touched.collect()));
                }
            }
        }
    }
}
