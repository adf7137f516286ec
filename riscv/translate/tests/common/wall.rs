//! A host of a few pages, between machine mode's memory, a device, and nothing. It panics at each
//! access that [`Host`] forbids.
#![allow(dead_code, reason = "each test uses a part")]

use std::cell::{Cell, RefCell};

use poorwill_translate::Host;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const RAM: u64 = 0x8000_0000;
pub(crate) const PAGES: u64 = 16;
/// The page of the memory that is machine mode's.
pub(crate) const KEPT: u64 = RAM + 5 * PAGE;
pub(crate) const DEVICE: u64 = 0x1000_0000;

/// What every load of the device returns.
pub(crate) const FROM_DEVICE: u64 = 0x5a5a_a5a5_0ff0_1234;

pub(crate) struct Wall {
    pub(crate) words: RefCell<Vec<u64>>,
    /// Accesses to the device: address, bytes, the stored value.
    pub(crate) device: RefCell<Vec<(u64, u64, Option<u64>)>>,
    pub(crate) loads: Cell<u64>,
}

impl Wall {
    pub(crate) fn new() -> Self {
        Wall {
            words: RefCell::new(vec![0; (PAGES * PAGE / 8) as usize]),
            device: RefCell::default(),
            loads: Cell::new(0),
        }
    }

    /// The place of a word.
    fn place(&self, address: u64, bytes: u64) -> usize {
        assert!(address.is_multiple_of(bytes), "{address:#x} by {bytes}");
        assert!(
            self.is_memory(address & !(PAGE - 1)),
            "{address:#x} is not memory"
        );
        ((address - RAM) / 8) as usize
    }

    pub(crate) fn word(&self, address: u64) -> u64 {
        self.words.borrow()[self.place(address, 8)]
    }

    pub(crate) fn put(&self, address: u64, value: u64) {
        let place = self.place(address, 8);
        self.words.borrow_mut()[place] = value;
    }
}

fn mask(bytes: u64) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

impl Host for Wall {
    fn is_memory(&self, page: u64) -> bool {
        assert!(page.is_multiple_of(PAGE));
        (RAM..RAM + PAGES * PAGE).contains(&page) && page != KEPT
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        self.loads.set(self.loads.get() + 1);
        let word = self.words.borrow()[self.place(address, bytes)];
        word >> (8 * (address % 8)) & mask(bytes)
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        assert_eq!(value & !mask(bytes), 0, "upper bits are zero");
        let place = self.place(address, bytes);
        let shift = 8 * (address % 8);
        let word = &mut self.words.borrow_mut()[place];
        *word = *word & !(mask(bytes) << shift) | value << shift;
    }

    fn load_device(&self, address: u64, bytes: u64) -> Option<u64> {
        assert!(address.is_multiple_of(bytes), "{address:#x} by {bytes}");
        assert!(!self.is_memory(address & !(PAGE - 1)));
        if address / PAGE != DEVICE / PAGE {
            return None;
        }
        self.device.borrow_mut().push((address, bytes, None));
        Some(FROM_DEVICE & mask(bytes))
    }

    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()> {
        assert!(address.is_multiple_of(bytes), "{address:#x} by {bytes}");
        assert!(!self.is_memory(address & !(PAGE - 1)));
        assert_eq!(value & !mask(bytes), 0, "upper bits are zero");
        if address / PAGE != DEVICE / PAGE {
            return None;
        }
        self.device.borrow_mut().push((address, bytes, Some(value)));
        Some(())
    }

    fn fence(&self) {}

    fn time(&self) -> u64 {
        0
    }

    fn external_interrupt(&self) -> bool {
        false
    }
}
