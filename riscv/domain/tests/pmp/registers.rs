//! The plan in registers that keep less than is written, or what they like.

use std::cell::RefCell;

use poorwill_domain::pmp::{Entry, Lost, Pmp, PmpPlan, PmpRegisters, Wanted};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

use crate::access::access;

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

    /// The entries that the registers hold.
    fn entries(&self) -> Vec<Entry> {
        let (addresses, configs) = &*self.held.borrow();
        let configs = configs.iter().flat_map(|word| word.to_le_bytes());
        let entries = addresses.iter().zip(configs);
        let entries = entries.map(|(&address, config)| Entry {
            // A range of a power of two is read with ones below the granularity.
            address: match config >> 3 & 3 {
                3 => address | self.hidden().saturating_sub(1),
                _ => address & self.bits,
            },
            config,
        });
        entries.collect()
    }

    /// The bit just below the granularity: an entry that is off does not show it, but has it.
    fn hidden(&self) -> u64 {
        (self.bits & self.bits.wrapping_neg()) >> 1
    }
}

impl PmpRegisters for Model {
    fn set_address(&self, entry: usize, value: u64) -> Option<u64> {
        let (addresses, _) = &mut *self.held.borrow_mut();
        let own = addresses.get_mut(entry)?;
        if self.locked != Some(entry) {
            *own = value & (self.bits | self.hidden());
        }
        Some(*own & self.bits)
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

/// Page-aligned ranges, some of them past 32 bits of address.
fn ranges(most: usize) -> impl Strategy<Value = Vec<PhysRange>> {
    let range = (prop_oneof![0_u64..64, 0x10_0000..0x10_0040_u64], 1_u64..24)
        .prop_map(|(start, count)| PhysRange::new(start << 12, count << 12));
    prop::collection::vec(range, 0..=most)
}

proptest! {
    /// On a hart with fewer bits of address the plan is refused, or the registers grant what it
    /// grants: a range that loses its upper bits must not open other addresses.
    #[test]
    fn registers_with_fewer_bits_open_nothing_else(
        closed in ranges(4),
        memory in ranges(2),
        devices in prop_oneof![1 => Just(vec![PhysRange::new(0, 1 << 56)]), 2 => ranges(3)],
        bits in prop_oneof![Just(30_u32), Just(31), Just(38), Just(54)],
        granularity in prop_oneof![Just(0_u32), Just(10)],
    ) {
        let wanted = Wanted {
            readable: &[], closed: &closed, memory: &memory, devices: &devices, registers: &[],
        };
        let model = Model::new(64, ((1 << bits) - 1) & (u64::MAX << granularity));
        let Ok(plan) = PmpPlan::new(&wanted, Pmp::probe(&model)) else { return Ok(()) };
        let is_written = plan.write(&model).is_ok();
        prop_assert!(is_written || bits < 54, "a hart with all bits holds each plan");
        if is_written {
            let held = model.entries();
            for range in closed.iter().chain(&memory).chain(&devices) {
                for address in [range.start, range.end.wrapping_sub(4), range.end, range.start & 0xffff_ffff] {
                    let on_bus = address & ((1 << (bits + 2)) - 1);
                    prop_assert_eq!(access(&held, on_bus), access(plan.entries(), on_bus), "{:#x}", on_bus);
                }
            }
        }
    }
}

/// A domain's region past a hart's address bits must not open the firmware's memory below it.
#[test]
fn a_region_past_the_address_bits_is_refused() {
    let wanted = Wanted {
        readable: &[],
        closed: &CLOSED,
        memory: &[PhysRange::new(0x8020_0000, 0x20_0000)],
        devices: &[PhysRange::new(0x10_8000_0000, 0x20_0000)],
        registers: &[],
    };
    let model = Model::new(16, (1 << 30) - 1);
    let plan = PmpPlan::new(&wanted, Pmp::probe(&model)).unwrap();
    assert!(matches!(plan.write(&model), Err(Lost { .. })));
    assert_eq!(plan.write(&Model::new(16, ALL)), Ok(()));
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
