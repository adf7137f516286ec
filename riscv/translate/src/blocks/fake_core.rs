//! A core for tests: the interpreter runs translated code over the host's memory, the region and the
//! environment. It asserts that nothing else is accessed, and interrupts at a given instruction.

use std::cell::{Cell, RefCell};

use poorwill_hart::emulation::cause;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::enter::{Core, Left, Watch};
use super::region::{Environment, Region, Slot};
use crate::fake::FakeHost;
use crate::hart::{Stop, VirtualHart};
use crate::host::Host;

/// Address of the region.
pub const REGION: u64 = 0x4000_0000;
/// Address of the environment.
pub const ENVIRONMENT: u64 = REGION - PAGE_BYTES;
/// Address of MTIME.
pub const MTIME: u64 = 0x200_bff8;

/// An illegal instruction, in `mcause`.
const ILLEGAL: u64 = 2;

/// No instruction is here.
const HANDLER: u64 = 0x6000_0000;

/// The core.
#[derive(Debug)]
pub struct FakeCore<'a> {
    /// The memory of the OS.
    pub host: &'a FakeHost,
    /// Instructions of the core up to an interrupt.
    pub left: u64,
    /// Instructions of the core so far.
    pub instructions: u64,
    /// Instructions have changed since a fence.
    pub fences: u64,
}

impl<'a> FakeCore<'a> {
    /// A core that is interrupted after `left` instructions.
    #[must_use]
    pub fn new(host: &'a FakeHost, left: u64) -> Self {
        FakeCore {
            host,
            left,
            instructions: 0,
            fences: 0,
        }
    }
}

impl Core for FakeCore<'_> {
    fn enter(
        &mut self,
        x: &mut [u64; 32],
        memory: (&Region, &mut Environment),
        at: u64,
        _: Watch,
    ) -> Left {
        let (region, environment) = memory;
        let memory = Memory {
            host: self.host,
            region,
            environment: RefCell::new(environment),
            is_refused: Cell::new(false),
        };
        let mut core = VirtualHart::new();
        core.x = *x;
        core.pc = at;
        core.csrs.stvec = HANDLER;
        let left = loop {
            if self.left == 0 {
                break Left {
                    cause: cause::INTERRUPT | 7,
                    address: core.pc,
                };
            }
            let (pc, before) = (core.pc, core.x);
            let stop = core.run(&memory, 1);
            if stop != Stop::Turn || core.pc == HANDLER {
                let cause = match stop {
                    Stop::Turn => core.csrs.scause,
                    Stop::Call => cause::USER_CALL,
                    _ => ILLEGAL,
                };
                break Left { cause, address: pc };
            }
            if memory.is_refused.get() {
                core.x = before;
                break Left {
                    cause: cause::STORE_ACCESS,
                    address: pc,
                };
            }
            self.left -= 1;
            self.instructions += 1;
        };
        *x = core.x;
        left
    }

    fn fence_instructions(&mut self) {
        self.fences += 1;
    }

    fn protect(&mut self, text: PhysRange) -> bool {
        self.host.protect(text)
    }
}

/// What the lower mode of the core reaches.
struct Memory<'a> {
    host: &'a FakeHost,
    region: &'a Region,
    environment: RefCell<&'a mut Environment>,
    /// A store to the text was refused.
    is_refused: Cell<bool>,
}

impl Memory<'_> {
    fn environment(&self, offset: u64, act: impl FnOnce(&mut u64)) {
        act(self.environment.borrow_mut().field(offset));
    }
}

/// A word of a table.
fn of_table(table: &[Slot], offset: u64) -> u64 {
    let slot = table[(offset / 16) as usize];
    match offset % 16 {
        0 => slot.tag,
        8 => slot.value,
        _ => panic!("{offset:#x}"),
    }
}

impl Region {
    fn load(&self, offset: u64, bytes: u64) -> u64 {
        let within = |start: usize| offset.checked_sub(start as u64);
        let words = core::mem::offset_of!(Region, words);
        if let Some(offset) = within(words) {
            let word = |number: u64| u64::from(self.words[number as usize]);
            let first = offset / 8 * 2;
            let both = word(first) | word(first + 1) << 32;
            return both >> (8 * (offset % 8)) & (u64::MAX >> (64 - 8 * bytes));
        }
        assert_eq!(bytes, 8);
        if let Some(offset) = within(core::mem::offset_of!(Region, stores)) {
            return of_table(&self.stores, offset);
        }
        match within(core::mem::offset_of!(Region, loads)) {
            Some(offset) => of_table(&self.loads, offset),
            None => of_table(self.jumps.as_flattened(), offset),
        }
    }
}

impl Host for Memory<'_> {
    fn is_memory(&self, page: u64) -> bool {
        let is_own = page == MTIME - MTIME % PAGE_BYTES
            || page == ENVIRONMENT
            || (REGION..REGION + size_of::<Region>() as u64).contains(&page);
        is_own || self.host.is_memory(page)
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        if let Some(offset) = address
            .checked_sub(ENVIRONMENT)
            .filter(|at| *at < PAGE_BYTES)
        {
            let mut value = 0;
            self.environment(offset, |field| value = *field);
            return value;
        }
        let region = size_of::<Region>() as u64;
        match address.checked_sub(REGION).filter(|at| *at < region) {
            Some(offset) => self.region.load(offset, bytes),
            None if address == MTIME => self.host.time(),
            None => self.host.load(address, bytes),
        }
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        match address
            .checked_sub(ENVIRONMENT)
            .filter(|at| *at < PAGE_BYTES)
        {
            Some(offset) => {
                assert_eq!(bytes, 8);
                self.environment(offset, |field| *field = value);
            }
            None if self.host.text.get().contains(address) => self.is_refused.set(true),
            None => self.host.store(address, bytes, value),
        }
    }

    fn load_device(&self, _: u64, _: u64) -> Option<u64> {
        None
    }

    fn store_device(&self, _: u64, _: u64, _: u64) -> Option<()> {
        None
    }

    fn fence(&self) {}

    fn time(&self) -> u64 {
        self.host.time()
    }

    fn external_interrupt(&self) -> bool {
        false
    }
}
