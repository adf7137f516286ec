//! The persistent memory region of a controller that is nothing but registers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use poorwill_clock::Clock;
use poorwill_memory::Page;

use crate::mapped::fake::FakePmem;
use crate::mapped::{MappedMedium, MappedMemory};
use crate::nvme::{MemoryRegion, NvmeError, Registers, region_bar};
use crate::{Medium, MediumError};

const CAP_UPPER: u64 = 0x04;
const PMRCAP: u64 = 0xe00;
const PMRCTL: u64 = 0xe04;
const PMRSTS: u64 = 0xe08;
const NOT_READY: u32 = 1 << 8;

#[derive(Default)]
struct Model {
    registers: RefCell<BTreeMap<u64, u32>>,
    /// Reads of the status until the region is ready.
    delay: Cell<u32>,
    now: Cell<u64>,
}

impl Model {
    /// A controller with a region in BAR 4.
    fn new() -> Self {
        let model = Model::default();
        model.set(CAP_UPPER, 1 << 24);
        model.set(PMRCAP, 4 << 5);
        model.set(PMRSTS, NOT_READY);
        model
    }

    fn set(&self, offset: u64, value: u32) {
        self.registers.borrow_mut().insert(offset, value);
    }

    fn get(&self, offset: u64) -> u32 {
        self.registers.borrow().get(&offset).copied().unwrap_or(0)
    }
}

impl Registers for Model {
    fn length(&self) -> u64 {
        0x4000
    }

    fn read32(&self, offset: u64) -> u32 {
        let value = self.get(offset);
        if offset == PMRSTS && self.get(PMRCTL) & 1 != 0 {
            match self.delay.get().checked_sub(1) {
                Some(left) => self.delay.set(left),
                None => return value & !NOT_READY,
            }
        }
        value
    }

    fn write32(&self, offset: u64, value: u32) {
        self.set(offset, value);
    }

    fn cut_dma(&self) {}
}

impl Clock for Model {
    fn milliseconds(&self) -> u64 {
        self.now.set(self.now.get() + 10);
        self.now.get()
    }
}

#[test]
fn a_region_is_found_by_its_bar() {
    let model = Model::new();
    assert_eq!(region_bar(&&model), Ok(Some(4)));
    model.set(PMRCAP, 1 << 5);
    assert!(matches!(
        region_bar(&&model),
        Err(NvmeError::Unsupported(_))
    ));
    model.set(CAP_UPPER, 0);
    assert_eq!(region_bar(&&model), Ok(None));
}

#[test]
fn a_region_is_enabled_and_put_back() {
    for (found, delay) in [(0, 0), (0, 30), (1, 0)] {
        let (model, pmem) = (Model::new(), FakePmem::new(2));
        model.set(PMRCTL, found);
        model.delay.set(delay);
        let region = MemoryRegion::enable(&model, &pmem, &model).unwrap();
        assert_eq!(model.get(PMRCTL), 1);
        drop(region);
        assert_eq!(model.get(PMRCTL), found);
    }
}

#[test]
fn a_region_that_cannot_be_used_is_told() {
    let (model, pmem) = (Model::new(), FakePmem::new(2));
    model.delay.set(u32::MAX);
    let enable = || MemoryRegion::enable(&model, &pmem, &model).err();
    assert_eq!(enable(), Some(NvmeError::NotReady(500)));
    // Two units of a minute.
    model.set(PMRCAP, 4 << 5 | 1 << 8 | 2 << 16);
    assert_eq!(enable(), Some(NvmeError::NotReady(120_000)));
    model.delay.set(0);
    for status in [1, 3 << 9] {
        model.set(PMRSTS, NOT_READY | status);
        assert_eq!(enable(), Some(NvmeError::Region(status as u16)));
        assert_eq!(model.get(PMRCTL), 0);
    }
}

#[test]
fn a_region_that_fails_later_fails_the_flush() {
    let (model, pmem) = (Model::new(), FakePmem::new(2));
    // SAFETY: the memory lives as long as the test.
    let memory = unsafe { MappedMemory::new(pmem.range()) }.unwrap();
    let region = MemoryRegion::enable(&model, &pmem, &model).unwrap();
    let mut medium = MappedMedium::new(memory, region).unwrap();
    medium.write(0, &[Page([3; 512])]).unwrap();
    assert_eq!(medium.flush(), Ok(()));
    assert_eq!(pmem.durable()[..8], 3u64.to_ne_bytes());
    model.set(PMRSTS, 2 << 9);
    assert_eq!(medium.flush(), Err(MediumError::Flush(2 << 9)));
}
