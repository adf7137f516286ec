//! Memory, devices and time for a lent hart.

use poorwill_arch::{csr, fence, guarded};
use poorwill_domain::pmp::{Access, PmpPlan};
use poorwill_hart::Progression;
use poorwill_hart::emulation::{self, Operation};
use poorwill_hart::interrupt;
use poorwill_memory::PAGE_BYTES;
use poorwill_translate::{Host, KnownMemory};

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
    /// What was found to be the OS's memory.
    pub(super) known: &'a KnownMemory,
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
        self.known.has(page, |start, bytes| {
            self.domain.bytes(bytes, start, 0).is_ok()
                && self.plan.allows(start, bytes, Access::All)
        })
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

    fn load_words(&self, address: u64, words: &mut [u64]) {
        let start = self.at::<u64>(address);
        for (number, word) in words.iter_mut().enumerate() {
            // SAFETY: as for loads; the pages are the OS's, and follow each other.
            *word = unsafe { start.wrapping_add(number).read_volatile() };
        }
    }

    fn has_words<const N: usize>(&self, address: u64, words: &[u64; N]) -> bool {
        let start = self.at::<u64>(address);
        let mut words = words.iter().enumerate();
        // SAFETY: as for loads; the words lie in one page.
        words.all(|(at, word)| unsafe { start.wrapping_add(at).read_volatile() == *word })
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
