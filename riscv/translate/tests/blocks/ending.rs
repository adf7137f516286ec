//! A host and a core that end the turn of a hart.

use std::cell::Cell;

use poorwill_memory::PhysRange;
use poorwill_translate::fake::FakeHost;
use poorwill_translate::fake_core::FakeCore;
use poorwill_translate::{Core, Environment, Host, Left, Region, Watch};

/// A host whose time comes to the end of a turn where the core is interrupted.
pub(crate) struct Turns<'a> {
    pub(crate) host: &'a FakeHost,
    pub(crate) is_over: &'a Cell<bool>,
    /// Loads and looks at the time up to the end of a program that runs in the interpreter alone.
    pub(crate) loads: Cell<u64>,
}

impl Turns<'_> {
    fn tire(&self) {
        self.loads.set(self.loads.get().saturating_sub(1));
        if self.loads.get() == 0 {
            self.is_over.set(true);
        }
    }
}

impl Host for Turns<'_> {
    fn is_memory(&self, page: u64) -> bool {
        self.host.is_memory(page)
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        self.tire();
        self.host.load(address, bytes)
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        self.host.store(address, bytes, value);
    }

    fn load_device(&self, address: u64, bytes: u64) -> Option<u64> {
        self.host.load_device(address, bytes)
    }

    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()> {
        self.host.store_device(address, bytes, value)
    }

    fn fence(&self) {
        self.host.fence();
    }

    fn time(&self) -> u64 {
        self.tire();
        if self.is_over.get() {
            u64::MAX
        } else {
            self.host.time()
        }
    }

    fn external_interrupt(&self) -> bool {
        self.host.external_interrupt()
    }
}

/// A core whose interrupt ends the turn, if it is the last one.
pub(crate) struct Ending<'a> {
    pub(crate) core: FakeCore<'a>,
    pub(crate) is_over: &'a Cell<bool>,
    /// Interrupts before the last one, and words up to each.
    pub(crate) more: u64,
    pub(crate) every: u64,
}

impl Core for Ending<'_> {
    fn enter(
        &mut self,
        x: &mut [u64; 32],
        memory: (&Region, &mut Environment),
        at: u64,
        watch: Watch,
    ) -> Left {
        let left = self.core.enter(x, memory, at, watch);
        if self.core.left == 0 {
            match self.more.checked_sub(1) {
                Some(more) => self.more = more,
                None => self.is_over.set(true),
            }
            self.core.left = self.every;
        }
        left
    }

    fn fence_instructions(&mut self) {
        self.core.fence_instructions();
    }

    fn protect(&mut self, text: PhysRange) -> bool {
        self.core.protect(text)
    }
}
