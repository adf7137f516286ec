//! Memory, devices and time for a lent hart.

use core::cell::Cell;

use poorwill_arch::{csr, fence, guarded};
use poorwill_domain::pmp::{Access, PmpPlan};
use poorwill_hart::Progression;
use poorwill_hart::emulation::{self, Operation};
use poorwill_hart::interrupt;
use poorwill_memory::PAGE_BYTES;
use poorwill_translate::Host;

use super::lent::Executor;
use crate::domain::LiveDomain;
use crate::hart::exception;
use crate::platform::platform;

/// The lent hart's reach: what its own PMP plan allows, and mediated registers.
pub(super) struct Reach<'a> {
    pub(super) domain: &'a LiveDomain,
    pub(super) plan: &'a PmpPlan,
    pub(super) executor: &'a Executor,
    /// The hart's place.
    pub(super) place: usize,
    /// All lent harts, by their places.
    pub(super) lent: u32,
    /// Pages that were found to be the OS's memory.
    pub(super) known: &'a KnownPages,
}

/// Pages that are the OS's memory, by their hash; odd places are free.
#[derive(Debug)]
pub(super) struct KnownPages([Cell<u64>; KnownPages::COUNT]);

impl KnownPages {
    /// A power of two.
    const COUNT: usize = 32;

    pub(super) fn new() -> Self {
        KnownPages([const { Cell::new(1) }; Self::COUNT])
    }

    fn place(&self, page: u64) -> &Cell<u64> {
        &self.0[(page / PAGE_BYTES) as usize % Self::COUNT]
    }
}

impl Reach<'_> {
    /// A pointer to memory of the OS.
    ///
    /// # Panics
    ///
    /// If the bytes are others.
    fn at<W>(&self, address: u64) -> *mut W {
        let page = address & !(PAGE_BYTES - 1);
        assert!(
            self.is_memory(page),
            "a lent hart's access to {address:#x}, which is not the OS's memory"
        );
        core::ptr::with_exposed_provenance_mut(address as usize)
    }

    /// Makes an access to a device, as the hart's PMP and machine mode's mediators would let it.
    fn access_device(&self, address: u64, bytes: u64, operation: Operation) -> Option<u64> {
        let needed = match operation {
            Operation::Load => Access::Read,
            Operation::Store(_) => Access::ReadWrite,
        };
        let access = emulation::Access::new(address, bytes, operation);
        if self.plan.allows(address, bytes, needed) {
            // SAFETY: the OS may make this access itself, so no state of machine mode is there.
            return unsafe { guarded::make(&access) };
        }
        let memory = exception::memory_of(self.domain);
        platform().mediated.serve(&access, &memory)
    }
}

impl Host for Reach<'_> {
    fn is_memory(&self, page: u64) -> bool {
        let known = self.known.place(page);
        if known.get() == page {
            return true;
        }
        let is_memory = self.domain.bytes(PAGE_BYTES, page, 0).is_ok()
            && self.plan.allows(page, PAGE_BYTES, Access::All);
        if is_memory {
            known.set(page);
        }
        is_memory
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        // SAFETY: the OS's memory, by the check; any bits are a number. Devices may write there.
        unsafe {
            match bytes {
                1 => self.at::<u8>(address).read_volatile().into(),
                2 => self.at::<u16>(address).read_volatile().into(),
                4 => self.at::<u32>(address).read_volatile().into(),
                _ => self.at::<u64>(address).read_volatile(),
            }
        }
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        // SAFETY: as for loads; no Rust object is there.
        unsafe {
            match bytes {
                1 => self.at::<u8>(address).write_volatile(value as u8),
                2 => self.at::<u16>(address).write_volatile(value as u16),
                4 => self.at::<u32>(address).write_volatile(value as u32),
                _ => self.at::<u64>(address).write_volatile(value),
            }
        }
    }

    fn run_of_words(&self, address: u64, most: u64, words: Progression) -> u64 {
        let in_page = (PAGE_BYTES - address % PAGE_BYTES) / 8;
        let start = self.at::<u64>(address);
        let mut expected = words.first;
        for number in 0..most.min(in_page) {
            // SAFETY: as for loads; the words lie in one page.
            if unsafe { start.add(number as usize).read_volatile() } != expected {
                return number;
            }
            expected = expected.wrapping_add(words.step);
        }
        most.min(in_page)
    }

    fn has_halves(&self, address: u64, halves: &[u16]) -> bool {
        // SAFETY: any bits are a double word.
        let (first, middle, last) = unsafe { halves.align_to::<u64>() };
        let start = self.at::<u16>(address);
        let has = |offset: usize, half: &u16| {
            // SAFETY: as for loads; a block lies in one page.
            unsafe { start.wrapping_add(offset).read_volatile() == *half }
        };
        if !(address / 2 + first.len() as u64).is_multiple_of(4) {
            return (halves.iter().enumerate()).all(|(offset, half)| has(offset, half));
        }
        let words = start.wrapping_add(first.len()).cast::<u64>();
        let has_word = |number: usize, word: &u64| {
            // SAFETY: as above; the address is a multiple of 8.
            unsafe { words.wrapping_add(number).read_volatile() == *word }
        };
        let rest = halves.len() - last.len();
        (first.iter().enumerate()).all(|(offset, half)| has(offset, half))
            && (middle.iter().enumerate()).all(|(number, word)| has_word(number, word))
            && (last.iter().enumerate()).all(|(offset, half)| has(rest + offset, half))
    }

    fn load_halves(&self, address: u64, halves: &mut [u16]) {
        let start = self.at::<u16>(address);
        for (number, half) in halves.iter_mut().enumerate() {
            // SAFETY: as for loads; the half-words lie in one page.
            *half = unsafe { start.wrapping_add(number).read_volatile() };
        }
    }

    fn load_device(&self, address: u64, bytes: u64) -> Option<u64> {
        self.access_device(address, bytes, Operation::Load)
    }

    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()> {
        self.access_device(address, bytes, Operation::Store(value))?;
        let offset = address.wrapping_sub(self.executor.plic);
        if self.executor.interrupts.copies(offset) {
            (self.executor.interrupts).share(|place| self.lent >> place & 1 != 0);
        }
        Some(())
    }

    fn fence(&self) {
        fence::everything();
    }

    fn time(&self) -> u64 {
        platform().time.ticks()
    }

    fn external_interrupt(&self) -> bool {
        csr::read::<{ csr::MIP }>() & interrupt::MEI != 0
            && self.executor.interrupts.interrupts(self.place)
    }
}
