//! The plan in registers that keep less than is written, or what they like.

use std::cell::RefCell;

use poorwill_domain::pmp::{Lost, Pmp, PmpPlan, PmpRegisters, Wanted};
use poorwill_memory::PhysRange;

/// The registers of a hart with some entries (WARL: privileged specification, 3.7.1).
#[derive(Debug)]
struct Model {
    /// Bits of an address register.
    bits: u64,
    /// An entry that keeps what it has.
    locked: Option<usize>,
    held: RefCell<(Vec<u64>, Vec<u64>)>,
}

impl Model {
    fn new(entries: usize, bits: u64) -> Self {
        let words = entries.div_ceil(8);
        Model {
            bits,
            locked: None,
            held: RefCell::new((vec![0; entries], vec![0x9f; words])),
        }
    }
}

impl PmpRegisters for Model {
    fn set_address(&self, entry: usize, value: u64) -> Option<u64> {
        let (addresses, _) = &mut *self.held.borrow_mut();
        let own = addresses.get_mut(entry)?;
        if self.locked != Some(entry) {
            *own = value & self.bits;
        }
        Some(*own)
    }

    fn set_config(&self, word: usize, value: u64) -> Option<u64> {
        let (addresses, configs) = &mut *self.held.borrow_mut();
        let own = configs.get_mut(word)?;
        let there = addresses.len() - 8 * word;
        let mask = u64::MAX >> (64 - 8 * there.min(8));
        *own = value & mask;
        Some(*own)
    }
}

/// Bits of an address register on a hart with 56 bits of address, and of one with fewer.
const ALL: u64 = (1 << 54) - 1;
const FEW: u64 = (1 << 38) - 1;

fn plan(closed: &[PhysRange]) -> PmpPlan {
    let wanted = Wanted {
        readable: &[],
        closed,
        memory: &[PhysRange::new(0x8020_0000, 0x1000_0000)],
        devices: &[PhysRange::new(0, 1 << 56)],
        registers: &[],
    };
    PmpPlan::new(
        &wanted,
        Pmp {
            entries: 16,
            granularity_bits: 2,
        },
    )
    .unwrap()
}

const CLOSED: [PhysRange; 2] = [
    PhysRange {
        start: 0x8000_0000,
        end: 0x8020_0000,
    },
    PhysRange {
        start: 0x200_0000,
        end: 0x201_0000,
    },
];

#[test]
fn what_a_hart_has_is_found() {
    for (entries, bits, granularity_bits) in [(16, ALL, 2), (8, ALL & !0x3ff, 12), (64, FEW, 2)] {
        let found = Pmp::probe(&Model::new(entries, bits));
        assert_eq!(
            found,
            Pmp {
                entries,
                granularity_bits
            }
        );
    }
    assert_eq!(Pmp::probe(&Model::new(0, ALL)), Pmp::NONE);
    assert_eq!(
        Pmp::probe(&Model::new(16, 0)),
        Pmp::NONE,
        "registers of zeros"
    );
}

#[test]
fn what_was_written_is_there() {
    let plan = plan(&CLOSED);
    for (entries, bits) in [(16, ALL), (64, FEW)] {
        let model = Model::new(entries, bits);
        assert_eq!(plan.write(&model), Ok(()));
        let (addresses, configs) = &*model.held.borrow();
        for (entry, held) in plan.entries().iter().zip(addresses) {
            assert_eq!(entry.address & bits, *held);
        }
        assert!(
            configs
                .iter()
                .zip(plan.config_words())
                .all(|(held, word)| *held == word)
        );
    }
}

#[test]
fn an_entry_that_is_not_there_or_locked_is_told() {
    let plan = plan(&CLOSED);
    let needed = plan.entries().len();
    for entries in 1..needed {
        assert_eq!(
            plan.write(&Model::new(entries, ALL)),
            Err(Lost { entry: entries })
        );
    }
    for locked in 0..needed {
        let model = Model {
            locked: Some(locked),
            ..Model::new(16, ALL)
        };
        assert_eq!(plan.write(&model), Err(Lost { entry: locked }));
    }
}
