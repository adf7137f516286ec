use core::fmt::Display;
use std::cell::RefCell;

use poorwill_clock::Clock;

use super::controller::{Core, FakeController, Hooks};
use crate::nvme::Registers;

/// A controller as its driver sees it. It works when the driver looks at the clock.
#[derive(Debug)]
pub struct Attached<H: Hooks> {
    pub memory: H::Memory,
    controller: RefCell<FakeController<H>>,
}

impl<H: Hooks> Attached<H> {
    pub fn new(memory: H::Memory, core: Core, hooks: H) -> Self {
        let controller = RefCell::new(FakeController { core, hooks });
        Attached { memory, controller }
    }

    /// Looks into the controller, or changes it.
    pub fn with<T>(&self, job: impl FnOnce(&mut FakeController<H>) -> T) -> T {
        job(&mut self.controller.borrow_mut())
    }

    /// The registers that a driver is to put back: CC; AQA, ASQ and ACQ; the interrupt mask.
    pub fn registers(&self) -> (u32, [u32; 5], u32) {
        self.with(|one| {
            let registers = &one.core.registers;
            (registers.configuration, registers.admin, registers.masked)
        })
    }
}

impl<H: Hooks> Clock for Attached<H> {
    fn milliseconds(&self) -> u64 {
        self.with(|one| {
            one.hooks.look(&mut one.core);
            one.work(&self.memory);
            one.core.now
        })
    }

    fn waits(&self, wait: &dyn Display, limit: u64) {
        self.with(|one| one.hooks.waits(wait, limit));
    }
}

impl<H: Hooks> Registers for Attached<H> {
    fn length(&self) -> u64 {
        self.with(|one| one.core.length)
    }

    fn read32(&self, offset: u64) -> u32 {
        self.with(|one| {
            assert!(offset.is_multiple_of(4) && offset < one.core.length);
            one.read(offset)
        })
    }

    fn write32(&self, offset: u64, value: u32) {
        self.with(|one| {
            assert!(offset.is_multiple_of(4) && offset < one.core.length);
            one.write(&self.memory, offset, value);
        });
    }

    fn cut_dma(&self) {
        self.with(|one| one.core.is_cut = true);
    }
}
