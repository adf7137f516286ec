use std::cell::Cell;

use super::model::{self, Queue};
use super::*;
use crate::iommu::register::{CAPABILITIES, CQCSR, DDTP, capabilities, ddtp};

/// DDTP, with the modes that it can take, the reads for which a write stays busy, and the version.
#[derive(Debug)]
struct ModeRegister {
    value: Cell<u64>,
    modes: u64,
    delay: u32,
    busy: Cell<u32>,
    version: u64,
}

impl ModeRegister {
    fn new(value: u64) -> Self {
        ModeRegister {
            value: Cell::new(value),
            modes: 0b1_1111,
            delay: 3,
            busy: Cell::new(0),
            version: 0x10,
        }
    }
}

impl Registers<u64> for ModeRegister {
    fn read(&self, offset: u64) -> u64 {
        if offset == CAPABILITIES {
            return self.version;
        }
        assert_eq!(offset, DDTP);
        let busy = self.busy.get();
        self.busy.set(busy.saturating_sub(1));
        self.value.get() | if busy > 0 { ddtp::BUSY } else { 0 }
    }

    fn write(&self, offset: u64, value: u64) {
        assert_eq!(offset, DDTP);
        assert_eq!(self.busy.get(), 0, "written while busy");
        self.busy.set(self.delay);
        if self.modes >> (value & ddtp::MODE) & 1 == 1 {
            self.value.set(value);
        }
    }
}

#[test]
fn one_that_is_off_is_opened_and_one_that_translates_is_told() {
    // Off, bare, one level, three levels with a directory.
    for (before, after, mode) in [
        (0, 1, IommuMode::Bare),
        (1, 1, IommuMode::Bare),
        (2, 2, IommuMode::Translating),
        (0x1234_5404, 0x1234_5404, IommuMode::Translating),
    ] {
        let model = ModeRegister::new(before);
        let iommu = Iommu::new(&model);
        let opened = match mode {
            IommuMode::Bare => Ok(()),
            _ => Err(IommuError::Translates(before)),
        };
        assert_eq!(iommu.open(), opened);
        assert_eq!((model.value.get(), iommu.mode()), (after, mode));
        assert_eq!(iommu.is_on(), mode != IommuMode::Bare);
    }
}

#[test]
fn one_that_does_not_open_is_told() {
    let open = |change: fn(&mut ModeRegister)| {
        let mut model = ModeRegister::new(0);
        change(&mut model);
        (Iommu::new(&model).open(), model.value.get())
    };
    let (told, after) = open(|model| model.modes = 0b1_1101);
    assert_eq!((told, after), (Err(IommuError::Closed(0)), 0));
    let (told, _) = open(|model| model.delay = MAX_POLLS + 1);
    assert!(matches!(told, Err(IommuError::Busy { .. })), "{told:?}");
    // Another device, or another version.
    let (told, after) = open(|model| model.version = 0x20);
    assert_eq!((told, after), (Err(IommuError::Version(0x20)), 0));
}

fn start(model: &Model, highest: u32) -> Result<(), IommuError> {
    let mut pages = table_pages(8);
    TranslatingIommu::start(model, model, &mut pages, DeviceId(highest)).map(|_| ())
}

#[test]
fn an_iommu_that_lacks_what_is_needed_is_refused_by_name() {
    let refused = |change: fn(&mut Model)| {
        let mut model = Model::new(true);
        change(&mut model);
        let outcome = start(&model, 0).unwrap_err();
        assert!(model.state.borrow().modes.is_empty(), "it was changed");
        outcome
    };
    assert_eq!(
        refused(|model| model.capabilities = 0x02),
        IommuError::Version(0x02)
    );
    let without = |bit: u64| Model::new(true).capabilities & !bit;
    assert_eq!(
        refused(|model| model.capabilities &= !capabilities::SV39),
        IommuError::NoSv39(without(capabilities::SV39))
    );
    assert_eq!(refused(|model| model.fctl = 1), IommuError::Features(1));
    assert_eq!(refused(|model| model.fctl = 4), IommuError::Features(4));
    // Wired interrupts and a later minor version do not matter.
    let mut model = Model::new(true);
    model.fctl = 2;
    model.capabilities |= 0x11;
    start(&model, 0).unwrap();
}

#[test]
fn capabilities_are_read_from_their_fields() {
    let mut model = Model::new(false);
    model.capabilities |= capabilities::ATS | 1 << 38;
    let expected = Capabilities {
        has_wide_contexts: false,
        has_sv48: true,
        has_ats: true,
        address_bits: 56,
    };
    assert_eq!(Capabilities::read(&model).unwrap(), expected);
}

#[test]
fn the_directory_has_the_fewest_levels_that_hold_all_devices() {
    for (is_wide, highest, mode) in [
        (true, 0x3f, 2),
        (true, 0x40, 3),
        (true, 0x7fff, 3),
        (true, 0x8000, 4),
        (true, 0xff_ffff, 4),
        (false, 0x7f, 2),
        (false, 0x80, 3),
        (false, 0xffff, 3),
        (false, 0x1_0000, 4),
    ] {
        let model = Model::new(is_wide);
        start(&model, highest).unwrap();
        assert_eq!(model.state.borrow().ddtp & 0xf, mode, "{highest:#x}");
        assert_eq!(
            model.access((highest, 0x8000_0000, false)),
            Err(model::NOT_VALID)
        );
    }
    let model = Model::new(true);
    let wide = DeviceId(0x100_0000);
    assert_eq!(start(&model, wide.0), Err(IommuError::DeviceId(wide)));
}

#[test]
fn an_iommu_without_these_levels_stays_off() {
    let mut model = Model::new(true);
    model.max_levels = 1;
    assert_eq!(start(&model, 0x40), Err(IommuError::Levels(2)));
    assert_eq!(model.access((0, 0, false)), Err(model::OFF));
}

#[test]
fn nothing_of_an_earlier_stage_survives() {
    for (mode, is_wide) in [(0, true), (1, true), (2, false), (4, true)] {
        let mut model = Model::new(is_wide);
        model.capabilities |= capabilities::ATS;
        {
            // A directory at 0x1000 that passes all of device 0's accesses.
            let mut state = model.state.borrow_mut();
            state.ddtp = 1 << 10 | mode;
            state
                .ram
                .insert(0x1000, if mode == 2 { 1 } else { 1 | 2 << 10 });
            state.ram.insert(0x2000, 1 | 3 << 10);
            state.ram.insert(0x3000, 1);
            state.show_directory();
            state.command_queue = Queue::left_on();
            state.fault_queue = Queue::left_on();
            state.page_queue = Queue::left_on();
        }
        let before = model.access((0, 0x5000, true));
        assert_eq!(before.is_ok(), mode != 0);
        start(&model, 0).unwrap();
        assert_eq!(model.access((0, 0x5000, true)), Err(model::NOT_VALID));
        let state = model.state.borrow();
        assert!(state.command_queue.is_on() && state.fault_queue.is_on());
        assert!(!state.page_queue.is_on());
    }
}

#[test]
fn too_few_pages_are_an_error() {
    for count in 0..3 {
        let model = Model::new(true);
        let outcome = TranslatingIommu::start(&model, &model, &mut table_pages(count), DeviceId(0));
        assert_eq!(outcome.unwrap_err(), IommuError::NoPages);
        assert_eq!(model.access((0, 0, false)), Err(model::OFF));
    }
}

#[test]
fn each_wait_has_a_bound() {
    let mut model = Model::new(true);
    model.delay = MAX_POLLS + 1;
    let polls = MAX_POLLS;
    let register = CQCSR;
    assert_eq!(start(&model, 0), Err(IommuError::Busy { register, polls }));
    model = Model::new(true);
    model.is_stuck.set(true);
    assert_eq!(start(&model, 0), Err(IommuError::Stalled { polls }));
    assert!(model.reads.get() < 3 * u64::from(MAX_POLLS));
    model = Model::new(true);
    model.is_picky.set(true);
    assert!(matches!(start(&model, 0), Err(IommuError::Stopped(_))));
}
