//! The plan for translated code of a weak hart.

use poorwill_domain::pmp::{Access, PlanError, Pmp, PmpPlan, TranslatedCode};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

use crate::access::{READ, READ_WRITE, access};

const MEMORY: [PhysRange; 2] = [
    PhysRange {
        start: 0x8020_0000,
        end: 0x9000_0000,
    },
    PhysRange {
        start: 0x9080_0000,
        end: 0xa000_0000,
    },
];
/// The page of translated code itself, before the code.
const OWN: PhysRange = PhysRange {
    start: 0x903f_f000,
    end: 0x9040_0000,
};
const CODE: PhysRange = PhysRange {
    start: 0x9040_0000,
    end: 0x9080_0000,
};
const TEXT: PhysRange = PhysRange {
    start: 0x8060_0000,
    end: 0x8120_0000,
};
const MTIME: u64 = 0x200_bff8;
/// Read and execute.
const RUN: u8 = 0b101;

fn plan(text: PhysRange, entries: usize, granularity_bits: u32) -> Result<PmpPlan, PlanError> {
    let pmp = Pmp {
        entries,
        granularity_bits,
    };
    let reach = TranslatedCode {
        text,
        page: OWN,
        code: CODE,
        mtime: MTIME,
    };
    PmpPlan::of_translated_code(MEMORY.into_iter(), &reach, pmp)
}

/// What translated code may do at an address.
fn expected(text: PhysRange, address: u64) -> u8 {
    match address {
        _ if CODE.contains(address) => RUN,
        _ if OWN.contains(address) => READ_WRITE,
        _ if (MTIME..MTIME + 8).contains(&address) => READ,
        _ if !MEMORY.iter().any(|range| range.contains(address)) => 0,
        _ if text.contains(address) => READ,
        _ => READ_WRITE,
    }
}

/// Compares the plan with the model at the borders of all ranges.
fn check(text: PhysRange) {
    let plan = plan(text, 64, 2).expect("enough entries");
    let ranges = MEMORY.into_iter().chain([OWN, CODE, text]);
    let borders = ranges.flat_map(|range| [range.start, range.end]);
    let others = [0, MTIME, MTIME + 8, 0x1000_0000, 0x8000_0000, 1 << 55];
    for border in borders.chain(others) {
        for address in [border.saturating_sub(8), border] {
            let found = access(plan.entries(), address);
            assert_eq!(found, expected(text, address), "{text:x?}, {address:#x}");
            let kinds = [Access::Read, Access::ReadWrite, Access::ReadExecute];
            let allowed = kinds.map(|kind| plan.allows(address, 8, kind));
            let bits = [READ, READ_WRITE, RUN];
            assert_eq!(allowed, bits.map(|bits| found & bits == bits));
        }
    }
}

#[test]
fn each_range_has_its_rights_and_all_others_none() {
    check(PhysRange::EMPTY);
    check(TEXT);
}

#[test]
fn text_opens_and_closes_nothing_but_the_os_memory() {
    let all = PhysRange {
        start: 0,
        end: 1 << 56,
    };
    let inverted = PhysRange {
        start: TEXT.end,
        end: TEXT.start,
    };
    let whole = MEMORY[0].hull(MEMORY[1]);
    for text in [all, inverted, whole, MEMORY[0], MEMORY[1], OWN, CODE] {
        check(text);
    }
    for edge in [MEMORY[0].start, MEMORY[0].end, OWN.start, CODE.end] {
        check(PhysRange::new(edge - 0x1000, 0x2000));
    }
}

proptest! {
    #[test]
    fn random_text_has_its_rights(start in 0x7fff0_u64..0xa0010, pages in 0_u64..0x20010) {
        check(PhysRange::new(start << 12, pages << 12));
    }
}

/// SiFive's E51 has eight entries.
#[test]
fn eight_entries_hold_it_with_text() {
    assert!(plan(TEXT, 8, 3).is_ok());
    assert!(matches!(
        plan(TEXT, 7, 3),
        Err(PlanError::Entries { needed: 8, .. })
    ));
}

#[test]
fn a_hart_that_cannot_hold_it_is_refused() {
    let entries = |plan: PmpPlan| plan.entries().len();
    let needed = plan(PhysRange::EMPTY, 16, 2)
        .map(entries)
        .expect("enough entries");
    assert!(plan(PhysRange::EMPTY, needed, 3).is_ok());
    assert!(matches!(
        plan(PhysRange::EMPTY, needed - 1, 2),
        Err(PlanError::Entries { .. })
    ));
    assert!(matches!(
        plan(PhysRange::EMPTY, 16, 4),
        Err(PlanError::Granularity { .. })
    ));
    assert!(matches!(
        plan(PhysRange::EMPTY, 0, 2),
        Err(PlanError::NoPmp)
    ));
}
