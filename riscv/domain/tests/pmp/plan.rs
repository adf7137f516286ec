//! The PMP plan, against a model of PMP matching.

use crate::access::{ALL, READ, READ_WRITE, access};
use poorwill_domain::pmp::{
    Access, Entry, MAX_ENTRIES, PHYSICAL_ADDRESS_BITS, PlanError, Pmp, PmpPlan, Wanted,
};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn pages(start: u64, count: u64) -> PhysRange {
    PhysRange::new(start * PAGE, count * PAGE)
}

fn pmp(entries: usize) -> Pmp {
    Pmp {
        entries,
        granularity_bits: 2,
    }
}

const EVERYWHERE: PhysRange = PhysRange {
    start: 0,
    end: 1 << PHYSICAL_ADDRESS_BITS,
};

/// QEMU's `virt` with an APLIC, IMSICs and a vault.
const FIRMWARE: [PhysRange; 6] = [
    PhysRange {
        start: 0x8000_0000,
        end: 0x801c_0000,
    },
    PhysRange {
        start: 0xbbe0_0000,
        end: 0xbc00_0000,
    },
    PhysRange {
        start: 0x2200_0000,
        end: 0x2400_0000,
    },
    PhysRange {
        start: 0x0200_0000,
        end: 0x0201_0000,
    },
    PhysRange {
        start: 0x0c00_0000,
        end: 0x0c00_8000,
    },
    PhysRange {
        start: 0x2400_0000,
        end: 0x2400_4000,
    },
];
const READABLE: PhysRange = PhysRange {
    start: 0x8015_f000,
    end: 0x8016_0000,
};
const MEMORY: [PhysRange; 2] = [
    PhysRange {
        start: 0x801c_0000,
        end: 0xbbe0_0000,
    },
    PhysRange {
        start: 0xbc00_0000,
        end: 0xc000_0000,
    },
];

fn virt<'a>() -> Wanted<'a> {
    Wanted {
        readable: &[READABLE],
        closed: &FIRMWARE,
        memory: &MEMORY,
        devices: &[EVERYWHERE],
        registers: &[],
    }
}

#[test]
fn a_machine_of_qemu_takes_few_entries() {
    let plan = PmpPlan::new(&virt(), pmp(16)).expect("a plan");
    // One to read, two for the firmware's 1.75 MiB, one for its second range, two
    // for flash and the IMSIC file beside it, two for devices, one for all else.
    assert_eq!(plan.entries().len(), 9);
    assert_eq!(access(plan.entries(), READABLE.start), READ);
    assert_eq!(access(plan.entries(), READABLE.end), 0);
    assert_eq!(access(plan.entries(), 0x1000_0000), ALL, "the console");
    assert_eq!(access(plan.entries(), 0x00ff_ffff_ffff_ffff), ALL);
}

#[test]
fn what_does_not_fit_is_refused_with_what_is_needed() {
    for entries in 1..9 {
        let needed = PlanError::Entries {
            needed: 9,
            there: entries,
        };
        assert_eq!(PmpPlan::new(&virt(), pmp(entries)), Err(needed));
    }
    let plan = PmpPlan::new(&virt(), pmp(9)).expect("a plan");
    assert_eq!(plan.fits(pmp(9)), Ok(()));
    assert_eq!(plan.fits(pmp(64)), Ok(()));
    let needed = PlanError::Entries {
        needed: 9,
        there: 8,
    };
    assert_eq!(plan.fits(pmp(8)), Err(needed));
    assert_eq!(plan.fits(Pmp::NONE), Err(PlanError::NoPmp));
    assert_eq!(PmpPlan::new(&virt(), Pmp::NONE), Err(PlanError::NoPmp));
    let coarse = Pmp {
        entries: 16,
        granularity_bits: 13,
    };
    assert!(matches!(
        plan.fits(coarse),
        Err(PlanError::Granularity { bits: 13, .. })
    ));
}

#[test]
fn more_entries_than_there_can_be_are_refused() {
    let closed: Vec<_> = (0..30).map(|n| pages(16 * n + 1, 14)).collect();
    let wanted = Wanted {
        readable: &[],
        closed: &closed,
        memory: &[],
        devices: &[EVERYWHERE],
        registers: &[],
    };
    // One less than 61: the first allowed range begins at zero and needs no base.
    assert!(PmpPlan::new(&wanted, pmp(64)).is_ok());
    let closed: Vec<_> = (0..40).map(|n| pages(16 * n + 1, 14)).collect();
    let wanted = Wanted {
        closed: &closed,
        ..wanted
    };
    let refusal = PmpPlan::new(&wanted, pmp(usize::MAX));
    assert!(
        matches!(
            refusal,
            Err(PlanError::Entries {
                needed: 79..,
                there: MAX_ENTRIES
            })
        ),
        "{refusal:?}"
    );
    let closed: Vec<_> = (0..65).map(|n| pages(16 * n + 1, 14)).collect();
    let wanted = Wanted {
        closed: &closed,
        ..wanted
    };
    assert!(matches!(
        PmpPlan::new(&wanted, pmp(64)),
        Err(PlanError::TooManyRanges(_))
    ));
}

#[test]
fn few_grants_are_an_allow_list() {
    let wanted = Wanted {
        readable: &[],
        closed: &[pages(0, 16), pages(100, 3), pages(200, 3), pages(300, 3)],
        memory: &[pages(1 << 10, 1 << 10)],
        devices: &[pages(16, 1)],
        registers: &[],
    };
    let plan = PmpPlan::new(&wanted, pmp(16)).expect("a plan");
    assert_eq!(plan.entries().len(), 2);
    assert_eq!(access(plan.entries(), 16 * PAGE), ALL);
    assert_eq!(access(plan.entries(), 17 * PAGE), 0);
    assert_eq!(access(plan.entries(), 1024 * PAGE), ALL);
    assert_eq!(access(plan.entries(), 2048 * PAGE), 0);
}

#[test]
fn what_is_only_wished_is_left_open_before_anything_is_refused() {
    let enables = pages(0x5_0001, 1);
    let closed: Vec<_> = FIRMWARE.into_iter().chain([enables]).collect();
    let wanted = Wanted {
        readable: &[],
        closed: &closed,
        memory: &[],
        devices: &[EVERYWHERE],
        registers: &[],
    };
    let (all, has_wished) = PmpPlan::best(&wanted, FIRMWARE.len(), pmp(MAX_ENTRIES)).unwrap();
    assert!(has_wished);
    assert_eq!(access(all.entries(), enables.start), 0);
    let few = pmp(all.entries().len() - 1);
    let (plan, has_wished) = PmpPlan::best(&wanted, FIRMWARE.len(), few).unwrap();
    assert!(!has_wished);
    assert_eq!(access(plan.entries(), enables.start), ALL);
    for range in FIRMWARE {
        assert_eq!(access(plan.entries(), range.start), 0, "{range:x?}");
    }
    let fewer = pmp(plan.entries().len() - 1);
    let refused = PmpPlan::best(&wanted, FIRMWARE.len(), fewer);
    assert!(matches!(refused, Err(PlanError::Entries { .. })));
}

/// Beside a PLIC's enables lie its priorities, which the OS must reach.
#[test]
fn what_is_only_wished_closes_nothing_that_lies_beside() {
    let enables = PhysRange::new(0xc00_2000, 0x400);
    let closed = [pages(0x8_0000, 16), enables];
    let wanted = Wanted {
        readable: &[],
        closed: &closed,
        memory: &[],
        devices: &[EVERYWHERE],
        registers: &[],
    };
    for (granularity_bits, is_closed) in [(2, true), (12, true), (13, false), (16, false)] {
        let pmp = Pmp {
            entries: 16,
            granularity_bits,
        };
        let (plan, has_wished) = PmpPlan::best(&wanted, 1, pmp).unwrap();
        assert_eq!(has_wished, is_closed, "2^{granularity_bits} bytes");
        assert_eq!(access(plan.entries(), 0xc00_0004), ALL, "priorities");
        assert_eq!(access(plan.entries(), enables.start) == 0, is_closed);
        assert_eq!(access(plan.entries(), closed[0].start), 0);
    }
}

#[test]
fn entries_are_saved_where_ranges_touch_and_where_one_begins_at_zero() {
    let none = Wanted {
        readable: &[],
        closed: &[],
        memory: &[],
        devices: &[],
        registers: &[],
    };
    let entries = |wanted| PmpPlan::new(&wanted, pmp(16)).map(|plan| plan.entries().len());
    let touching = [pages(2, 1), pages(3, 1), pages(0, 2)];
    let wanted = Wanted {
        memory: &touching,
        ..none
    };
    assert_eq!(entries(wanted), Ok(1), "one block of four pages");
    let wanted = Wanted {
        memory: &[pages(0, 3)],
        ..none
    };
    assert_eq!(entries(wanted), Ok(1), "from zero, and no block at all");
    let wanted = Wanted {
        memory: &[pages(1, 6)],
        ..none
    };
    assert_eq!(entries(wanted), Ok(2), "a pair, instead of four blocks");
}

#[test]
fn a_granularity_that_is_too_coarse_is_refused() {
    let coarse = |granularity_bits| {
        PmpPlan::new(
            &virt(),
            Pmp {
                entries: 16,
                granularity_bits,
            },
        )
    };
    assert!(coarse(12).is_ok());
    let refusal = PlanError::Granularity {
        bits: 13,
        start: READABLE.start,
        end: READABLE.end,
    };
    assert_eq!(coarse(13), Err(refusal));
    for bits in [56, 57, 63, 64, 66, u32::MAX] {
        assert!(
            matches!(coarse(bits), Err(PlanError::Granularity { .. })),
            "{bits}"
        );
    }
    // Whole units of memory around what is closed are lost to it.
    let wanted = Wanted {
        readable: &[],
        closed: &[pages(1, 1)],
        memory: &[pages(2, 14)],
        devices: &[],
        registers: &[],
    };
    let pmp = |granularity_bits| Pmp {
        entries: 16,
        granularity_bits,
    };
    assert!(PmpPlan::new(&wanted, pmp(13)).is_ok());
    let refusal = PlanError::Granularity {
        bits: 14,
        start: 2 * PAGE,
        end: 16 * PAGE,
    };
    assert_eq!(PmpPlan::new(&wanted, pmp(14)), Err(refusal));
}

#[test]
fn contradictions_and_impossible_addresses_are_refused() {
    let wanted = Wanted {
        closed: &[pages(3, 1)],
        memory: &[pages(0, 8)],
        ..virt()
    };
    let refusal = PlanError::Contradiction {
        start: 0,
        end: 8 * PAGE,
    };
    assert_eq!(PmpPlan::new(&wanted, pmp(16)), Err(refusal));
    let readable = Wanted {
        readable: &[pages(3, 1)],
        closed: &[],
        ..wanted
    };
    assert_eq!(PmpPlan::new(&readable, pmp(16)), Err(refusal));
    let beyond = PhysRange::new(1 << 56, 1);
    let wanted = Wanted {
        closed: &[beyond],
        ..virt()
    };
    assert_eq!(
        PmpPlan::new(&wanted, pmp(16)),
        Err(PlanError::Address(1 << 56))
    );
    let whole = PhysRange {
        start: 0,
        end: u64::MAX,
    };
    let wanted = Wanted {
        devices: &[whole],
        registers: &[],
        ..virt()
    };
    assert_eq!(
        PmpPlan::new(&wanted, pmp(16)),
        Err(PlanError::Address(u64::MAX - 1))
    );
}

#[test]
fn a_plan_that_opens_everything_is_one_entry() {
    let plan = PmpPlan::open();
    assert_eq!(plan.entries().len(), 1);
    for address in [0, 0x8000_0000, (1 << 56) - 1] {
        assert_eq!(access(plan.entries(), address), ALL);
    }
    assert_eq!(plan.config_words(), [0x1f, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_configuration_of_an_entry_is_its_byte() {
    let plan = PmpPlan::new(&virt(), pmp(16)).expect("a plan");
    for (index, entry) in plan.entries().iter().enumerate() {
        let word = plan.config_words()[index / 8];
        assert_eq!(word.to_le_bytes()[index % 8], entry.config);
    }
    assert_eq!(
        plan.config_words()[1] >> 8,
        0,
        "what is behind the last is off"
    );
    assert_eq!(plan.config_words()[2..], [0; 6]);
}

#[test]
fn the_lowest_bit_that_sticks_tells_the_granularity() {
    let bits = |stuck| Pmp::probed(16, stuck).granularity_bits;
    assert_eq!(bits(u64::MAX), 2);
    assert_eq!(bits(u64::MAX << 10 >> 10), 2);
    assert_eq!(bits(!0x3ff & ((1 << 54) - 1)), 12);
    assert_eq!(Pmp::probed(16, 0), Pmp::NONE);
    assert_eq!(Pmp::probed(0, u64::MAX), Pmp::NONE);
}

/// Ranges in a small space, so that they meet; some of them not of whole pages.
fn some_ranges(most: usize) -> impl Strategy<Value = Vec<PhysRange>> {
    let unit = prop_oneof![4 => Just(PAGE), 1 => Just(8 * PAGE), 1 => Just(PAGE / 2)];
    let range = (unit, 0_u64..64, 0_u64..24)
        .prop_map(|(unit, start, count)| PhysRange::new(start * unit, count * unit));
    prop::collection::vec(range, 0..=most)
}

/// Ranges of whole pages, few of which meet the others.
fn page_ranges(most: usize) -> impl Strategy<Value = Vec<PhysRange>> {
    let range = (0_u64..600, 1_u64..24).prop_map(|(start, count)| pages(start, count));
    prop::collection::vec(range, 0..=most)
}

fn devices() -> impl Strategy<Value = Vec<PhysRange>> {
    prop_oneof![
        Just(vec![EVERYWHERE]),
        some_ranges(4),
        Just(vec![pages(0, 1 << 20)])
    ]
}

fn lies_in(ranges: &[PhysRange], address: u64) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

/// Addresses at which anything may change, and around.
fn places(wanted: &Wanted<'_>, unit: u64) -> Vec<u64> {
    let all = [
        wanted.readable,
        wanted.closed,
        wanted.memory,
        wanted.devices,
        wanted.registers,
    ];
    let edges = all
        .into_iter()
        .flatten()
        .flat_map(|range| [range.start, range.end]);
    let mut places: Vec<u64> = edges
        .flat_map(|edge| [edge, edge / unit * unit, edge.next_multiple_of(unit)])
        .flat_map(|edge| {
            [
                edge,
                edge + 1,
                edge + 3,
                edge + unit,
                edge.wrapping_sub(1),
                edge.wrapping_sub(unit),
            ]
        })
        .chain((0..640).map(|page| page * PAGE))
        .filter(|place| *place < EVERYWHERE.end)
        .collect();
    places.extend([0, EVERYWHERE.end - 1]);
    places
}

/// Checks every place; `unit` is what ranges are rounded to.
fn check(wanted: &Wanted<'_>, entries: &[Entry], unit: u64) -> Result<(), TestCaseError> {
    // Rounding to whole units may close what lies beside something closed, or what
    // is not open for a whole unit; it never opens anything, nor closes memory.
    for place in places(wanted, unit) {
        let seen = access(entries, place);
        let unit_of = PhysRange::new(place / unit * unit, unit);
        let closed_near = wanted
            .closed
            .iter()
            .any(|range| range.length() > 0 && range.overlaps(&unit_of));
        let in_open = lies_in(wanted.memory, place) || lies_in(wanted.devices, place);
        let halves = || (0..unit / (PAGE / 2)).map(|half| unit_of.start + half * (PAGE / 2));
        let whole_unit_open =
            halves().all(|half| lies_in(wanted.memory, half) || lies_in(wanted.devices, half));
        let is_of_registers = halves().all(|half| lies_in(wanted.registers, half));
        if lies_in(wanted.readable, place) {
            prop_assert_eq!(seen, READ, "{:#x} is to be read only", place);
        } else if is_of_registers && !closed_near {
            prop_assert_eq!(seen, READ_WRITE, "{:#x} is to be registers", place);
        } else if lies_in(wanted.closed, place) || !in_open {
            prop_assert_eq!(seen, 0, "{:#x} is to be closed", place);
        } else if lies_in(wanted.memory, place) || (whole_unit_open && !closed_near) {
            prop_assert_eq!(seen, ALL, "{:#x} is to be open", place);
        } else {
            prop_assert_eq!(seen, 0, "{:#x} shares its unit", place);
        }
    }
    Ok(())
}

/// Around each edge of the plan its own answer is that of the model.
fn allows_as_a_hart_does(plan: &PmpPlan) -> Result<(), TestCaseError> {
    let edges = plan.entries().iter().map(|entry| entry.address << 2);
    for address in edges.flat_map(|edge| [edge.wrapping_sub(PAGE), edge, edge + PAGE]) {
        let address = address & !(PAGE - 1);
        for (needed, bits) in [
            (Access::Read, READ),
            (Access::ReadWrite, READ_WRITE),
            (Access::All, ALL),
        ] {
            let of_model = match address >> PHYSICAL_ADDRESS_BITS {
                0 => access(plan.entries(), address) & bits == bits,
                _ => false,
            };
            prop_assert_eq!(
                plan.allows(address, PAGE, needed),
                of_model,
                "{:#x}",
                address
            );
            prop_assert_eq!(
                plan.allows(address + 8, 8, needed),
                of_model,
                "{:#x}",
                address
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_address_is_as_wanted(
        readable in page_ranges(2),
        closed in some_ranges(6),
        memory in page_ranges(3),
        devices in devices(),
        registers in prop_oneof![2 => Just(vec![]), 1 => some_ranges(3)],
        entries in prop_oneof![Just(8_usize), Just(16), Just(64)],
        granularity_bits in prop_oneof![3 => Just(2_u32), 1 => Just(12), 1 => Just(13), 1 => Just(15)],
    ) {
        let wanted = Wanted { readable: &readable, closed: &closed, memory: &memory, devices: &devices, registers: &registers };
        let unit_bits = granularity_bits.max(12);
        match PmpPlan::new(&wanted, Pmp { entries, granularity_bits }) {
            Ok(plan) => {
                prop_assert!(plan.entries().len() <= entries);
                check(&wanted, plan.entries(), 1 << unit_bits)?;
                allows_as_a_hart_does(&plan)?;
                // It takes as many as it says.
                let needed = plan.entries().len();
                let exactly = PmpPlan::new(&wanted, Pmp { entries: needed, granularity_bits });
                prop_assert!(needed == 0 || exactly == Ok(plan.clone()));
                if needed > 1 {
                    let short = PmpPlan::new(&wanted, Pmp { entries: needed - 1, granularity_bits });
                    prop_assert_eq!(short, Err(PlanError::Entries { needed, there: needed - 1 }));
                }
            }
            Err(PlanError::Entries { needed, there }) => {
                prop_assert!(needed > there && there == entries);
            }
            Err(PlanError::Granularity { bits, .. }) => {
                prop_assert_eq!(bits, granularity_bits);
                let is_whole = |range: &PhysRange| (range.start | range.end) >> unit_bits << unit_bits == range.start | range.end;
                let all_whole = [&readable, &closed, &memory].into_iter().flatten().all(is_whole);
                prop_assert!(!all_whole, "everything is of whole units");
            }
            Err(PlanError::Contradiction { start, end }) => {
                let range = PhysRange { start, end };
                let meets = |others: &[PhysRange]| others.iter().any(|other| other.length() > 0 && other.overlaps(&range));
                let is_memory = memory.contains(&range) && (meets(&readable) || meets(&closed));
                let is_registers = meets(&registers) && (meets(&memory) || meets(&devices));
                prop_assert!(is_memory || is_registers);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
