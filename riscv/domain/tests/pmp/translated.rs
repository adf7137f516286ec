//! The plan for translated code of a weak hart.

use poorwill_domain::pmp::{Access, PlanError, Pmp, PmpPlan};
use poorwill_memory::PhysRange;

const MEMORY: [PhysRange; 3] = [
    PhysRange {
        start: 0x8020_0000,
        end: 0x9000_0000,
    },
    PhysRange {
        start: 0x9080_0000,
        end: 0xa000_0000,
    },
    // The page of translated code itself, before the code.
    PhysRange {
        start: 0x903f_f000,
        end: 0x9040_0000,
    },
];
const CODE: PhysRange = PhysRange {
    start: 0x9040_0000,
    end: 0x9080_0000,
};
const MTIME: u64 = 0x200_bff8;

/// Entries of SiFive's E51, as silicon has them.
const E51_ENTRIES: usize = 8;

fn plan(entries: usize, granularity_bits: u32) -> Result<PmpPlan, PlanError> {
    let pmp = Pmp {
        entries,
        granularity_bits,
    };
    PmpPlan::of_translated_code(MEMORY.into_iter(), CODE, MTIME, pmp)
}

/// The access to a double word.
fn rights(plan: &PmpPlan, address: u64) -> [bool; 3] {
    let kinds = [Access::Read, Access::ReadWrite, Access::ReadExecute];
    kinds.map(|kind| plan.allows(address, 8, kind))
}

#[test]
fn each_range_has_its_rights_and_all_others_none() {
    let plan = plan(16, 2).expect("enough entries");
    for range in MEMORY {
        for address in [range.start, range.end - 8] {
            assert_eq!(rights(&plan, address), [true, true, false], "{address:#x}");
        }
    }
    for address in [CODE.start, CODE.end - 8] {
        assert_eq!(rights(&plan, address), [true, false, true], "{address:#x}");
    }
    assert_eq!(rights(&plan, MTIME), [true, false, false]);
    let others = [
        0,
        MTIME - 8,
        MTIME + 8,
        0x1000_0000,
        0x8000_0000,
        0x801f_fff8,
        0x9000_0000,
        0x903f_eff8,
        0xa000_0000,
        1 << 55,
    ];
    for address in others {
        assert_eq!(rights(&plan, address), [false; 3], "{address:#x}");
    }
}

#[test]
fn a_hart_that_cannot_hold_it_is_refused() {
    let needed = plan(16, 2).expect("enough entries").entries().len();
    assert!(plan(needed, 3).is_ok());
    assert!(matches!(
        plan(needed - 1, 2),
        Err(PlanError::Entries { .. })
    ));
    assert!(matches!(plan(16, 4), Err(PlanError::Granularity { .. })));
    assert!(matches!(plan(0, 2), Err(PlanError::NoPmp)));
}

#[test]
fn the_e51_of_sifive_u_holds_it() {
    let plan = plan(E51_ENTRIES, 2).expect("enough entries");
    assert_eq!(rights(&plan, CODE.start), [true, false, true]);
    // One more range of the OS's memory is one too many.
    let more = PhysRange::new(0xb000_1000, 0x1f_f000);
    let pmp = Pmp {
        entries: E51_ENTRIES,
        granularity_bits: 2,
    };
    let memory = MEMORY.into_iter().chain([more]);
    let refused = PmpPlan::of_translated_code(memory, CODE, MTIME, pmp);
    assert!(matches!(refused, Err(PlanError::Entries { .. })));
}
