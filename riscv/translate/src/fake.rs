//! A host with memory and one device, and page tables for it. It panics at each access that
//! [`Host`] forbids.

use std::cell::{Cell, RefCell};

use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::{Csrs, Host, Mode, VirtualHart};

/// First address of the memory.
pub const RAM: u64 = 0x8000_0000;

/// All memory that a host may have.
pub const MEMORY: PhysRange = PhysRange {
    start: RAM,
    end: RAM + (4 << 20),
};

/// First address of the device, which has a page of registers.
pub const DEVICE: u64 = 0x1000_0000;

/// The host.
#[derive(Debug)]
pub struct FakeHost {
    words: RefCell<Vec<u64>>,
    device: RefCell<Vec<u64>>,
    /// Stores to the device: address, bytes, value.
    pub stored: RefCell<Vec<(u64, u64, u64)>>,
    /// `time`
    pub time: Cell<u64>,
    /// A device interrupts.
    pub interrupts: Cell<bool>,
    /// The next page for a table.
    free: Cell<u64>,
    /// The page of the memory that is machine mode's.
    kept: Cell<Option<u64>>,
    /// What the fake core closes to stores of translated code.
    pub text: Cell<PhysRange>,
    /// The fake core can close it.
    pub protects: Cell<bool>,
}

impl FakeHost {
    /// A host with `pages` pages of memory.
    #[must_use]
    pub fn new(pages: u64) -> Self {
        let words = usize::try_from(pages * PAGE_BYTES / 8).expect("a small number");
        FakeHost {
            words: RefCell::new(vec![0; words]),
            device: RefCell::new(vec![0; 512]),
            stored: RefCell::default(),
            time: Cell::new(0),
            interrupts: Cell::new(false),
            free: Cell::new(RAM + pages * PAGE_BYTES),
            kept: Cell::new(None),
            text: Cell::new(PhysRange::EMPTY),
            protects: Cell::new(true),
        }
    }

    /// Keeps a page of the memory from the OS.
    pub fn keep(&self, page: u64) {
        self.kept.set(Some(page));
    }

    /// Closes the text to stores of translated code, if it can.
    pub(crate) fn protect(&self, text: PhysRange) -> bool {
        let can = self.protects.get();
        self.text.set(if can { text } else { PhysRange::EMPTY });
        can
    }

    /// All words of the memory.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        self.words.borrow().clone()
    }

    /// Asserts that the OS may access the memory so.
    fn check(&self, address: u64, bytes: u64) {
        assert!(address.is_multiple_of(bytes), "{address:#x} by {bytes}");
        let page = address - address % PAGE_BYTES;
        assert!(self.is_memory(page), "{address:#x} is not the OS's memory");
    }

    /// Puts instructions into memory.
    pub fn put_code(&self, address: u64, code: &[u32]) {
        for (place, bits) in (address..).step_by(4).zip(code) {
            self.store(place, 2, (bits & 0xffff).into());
            self.store(place + 2, 2, (bits >> 16).into());
        }
    }

    /// An empty page for a table, from the end of the memory.
    #[must_use]
    pub fn take_page(&self) -> u64 {
        self.free.set(self.free.get() - PAGE_BYTES);
        self.free.get()
    }

    /// Maps `address` to `physical`, in tables with this number of levels. The leaf is in a table of
    /// `leaf_level`, 0 for a page. Returns the leaf's place.
    pub fn map(
        &self,
        root: u64,
        levels: u32,
        leaf_level: u32,
        address: u64,
        physical: u64,
        flags: u64,
    ) -> u64 {
        let mut table = root;
        for level in (0..levels).rev() {
            let index = address >> (12 + 9 * level) & 511;
            let place = table + 8 * index;
            if level == leaf_level {
                self.store(place, 8, physical >> 12 << 10 | flags);
                return place;
            }
            if self.load(place, 8) == 0 {
                let new = self.take_page();
                self.store(place, 8, new >> 12 << 10 | 1);
            }
            table = self.load(place, 8) >> 10 << 12;
        }
        unreachable!("the leaf's level is one of them")
    }
}

fn cut(word: u64, address: u64, bytes: u64) -> u64 {
    word >> (8 * (address % 8)) & (u64::MAX >> (64 - 8 * bytes))
}

fn put(word: &mut u64, address: u64, bytes: u64, value: u64) {
    let (shift, mask) = (8 * (address % 8), u64::MAX >> (64 - 8 * bytes));
    *word = *word & !(mask << shift) | (value & mask) << shift;
}

fn place(address: u64, base: u64, words: &[u64]) -> Option<usize> {
    let place = usize::try_from(address.checked_sub(base)? / 8).ok()?;
    (place < words.len()).then_some(place)
}

impl Host for FakeHost {
    fn is_memory(&self, page: u64) -> bool {
        assert!(page.is_multiple_of(PAGE_BYTES));
        self.kept.get() != Some(page) && place(page, RAM, &self.words.borrow()).is_some()
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        self.check(address, bytes);
        let words = self.words.borrow();
        cut(
            words[place(address, RAM, &words).expect("memory")],
            address,
            bytes,
        )
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        self.check(address, bytes);
        let mut words = self.words.borrow_mut();
        let place = place(address, RAM, &words).expect("memory");
        put(&mut words[place], address, bytes, value);
    }

    fn load_device(&self, address: u64, bytes: u64) -> Option<u64> {
        assert!(address.is_multiple_of(bytes));
        let device = self.device.borrow();
        Some(cut(
            device[place(address, DEVICE, &device)?],
            address,
            bytes,
        ))
    }

    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()> {
        assert!(address.is_multiple_of(bytes));
        let mut device = self.device.borrow_mut();
        let place = place(address, DEVICE, &device)?;
        put(&mut device[place], address, bytes, value);
        self.stored.borrow_mut().push((address, bytes, value));
        Some(())
    }

    fn fence(&self) {}

    fn time(&self) -> u64 {
        self.time.get()
    }

    fn external_interrupt(&self) -> bool {
        self.interrupts.get()
    }
}

/// What S-mode can see of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// x0 to x31.
    pub x: [u64; 32],
    /// f0 to f31.
    pub f: [u64; 32],
    /// The program counter.
    pub pc: u64,
    /// Privilege mode.
    pub mode: Mode,
    /// The CSRs.
    pub csrs: Csrs,
}

impl State {
    /// That of a hart.
    #[must_use]
    pub fn of(hart: &VirtualHart) -> Self {
        State {
            x: hart.x,
            f: hart.f,
            pc: hart.pc,
            mode: hart.mode,
            csrs: hart.csrs,
        }
    }
}
