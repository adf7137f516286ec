#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::plic::model::{Kind, Model as PlicModel};

#[derive(Debug, Default)]
struct Model(RefCell<BTreeMap<u64, u32>>);

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        self.0.borrow().get(&offset).copied().unwrap_or(0)
    }

    fn write(&self, offset: u64, value: u32) {
        self.0.borrow_mut().insert(offset, value);
    }
}

#[test]
fn an_aplic_sends_it_to_one_hart() {
    let registers = Model::default();
    let line = PowerFailLine::Aplic {
        registers: &registers,
        source: 60,
        hart: 3,
        identity: 2,
    };
    line.start();
    assert_eq!(registers.0.borrow().len(), 1);
    line.arm();
    let written = registers.0.borrow().clone();
    let expected = [
        (0, 0x104),
        (4 * 60, 6),
        (0x1cdc, 60),
        (0x1ddc, 60),
        (0x1edc, 60),
        (0x3000 + 4 * 60, 3 << 18 | 2),
    ];
    assert_eq!(written, BTreeMap::from(expected));
    assert!(!line.is_raised());
    registers.write(0x1d04, 1 << 28);
    assert!(line.is_raised() && line.claim());
}

const SOURCE: usize = 60;
const CONTEXT: usize = 4;

fn plic_line(model: &PlicModel) -> PowerFailLine<&PlicModel> {
    PowerFailLine::Plic {
        registers: model,
        source: SOURCE as u32,
        context: CONTEXT as u32,
    }
}

/// A machine with that PLIC is powered while its line is high, as the supplies ramp up.
fn ramping_up(kind: Kind) -> PlicModel {
    let model = PlicModel::new(kind, 95, 8);
    model.set_level(SOURCE, true);
    model
}

const KINDS: [Kind; 2] = [Kind::Specified, Kind::Qemu];

#[test]
fn a_plic_has_it_claimed_in_machine_modes_context() {
    for kind in KINDS {
        let model = PlicModel::new(kind, 95, 8);
        let line = plic_line(&model);
        line.start();
        line.arm();
        assert!(!line.is_raised() && !model.interrupts(CONTEXT));
        model.set_level(SOURCE, true);
        assert!(line.is_raised() && model.interrupts(CONTEXT));
        assert!((0..8).all(|context| model.interrupts(context) == (context == CONTEXT)));
        assert!(line.claim());
        assert!(!line.claim() && !model.interrupts(CONTEXT), "it comes once");
        model.set_level(SOURCE, false);
        model.set_level(SOURCE, true);
        if kind == Kind::Specified {
            assert!(!model.interrupts(CONTEXT), "nor does another rise come");
        }
    }
}

#[test]
fn before_it_is_armed_the_line_is_seen_as_it_is_now() {
    for kind in KINDS {
        let model = ramping_up(kind);
        let line = plic_line(&model);
        line.start();
        for is_high in [true, false, false, true, true, false, true] {
            model.set_level(SOURCE, is_high);
            // QEMU's does not tell that it has fallen, and nothing is to be lost by that.
            let expected = is_high || kind == Kind::Qemu;
            assert_eq!(line.is_raised_unarmed(), expected, "{kind:?}");
            assert_eq!(line.is_raised_unarmed(), expected, "{kind:?}, again");
            assert!(!model.interrupts(CONTEXT), "it interrupts nobody yet");
        }
    }
}

#[test]
fn a_line_that_has_fallen_does_not_cut_a_healthy_machine() {
    let model = ramping_up(Kind::Specified);
    let line = plic_line(&model);
    line.start();
    model.set_level(SOURCE, false);
    line.arm();
    assert!(!line.is_raised() && !model.interrupts(CONTEXT));
    // From now on the latch is the answer, for as long as nobody has claimed it.
    model.set_level(SOURCE, true);
    model.set_level(SOURCE, false);
    assert!(line.is_raised() && model.interrupts(CONTEXT));
}

#[test]
fn a_line_that_is_still_high_interrupts_once_it_is_armed() {
    for kind in KINDS {
        let model = ramping_up(kind);
        let line = plic_line(&model);
        line.start();
        assert!(line.is_raised_unarmed());
        line.arm();
        assert!(line.is_raised() && model.interrupts(CONTEXT) && line.claim());
    }
}

/// Stop never completes its claim, and a reset may leave the PLIC as it was.
#[test]
fn the_line_is_seen_behind_a_stop_and_a_reset() {
    for is_high in [true, false] {
        let model = PlicModel::new(Kind::Specified, 95, 8);
        let line = plic_line(&model);
        line.arm();
        model.set_level(SOURCE, true);
        assert!(line.claim());
        model.set_level(SOURCE, is_high);
        let again = plic_line(&model);
        again.start();
        assert_eq!(again.is_raised_unarmed(), is_high);
        again.arm();
        assert_eq!(model.interrupts(CONTEXT), is_high);
    }
}
