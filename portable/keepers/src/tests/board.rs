//! What all modelled devices share: memory, time, power, configuration space, messages.

use std::cell::{Cell, RefCell};
use std::vec;
use std::vec::Vec;

use poorwill_pci::model::{MSI, MSI_X, Model, Node};
use poorwill_pci::{ConfigSpace, Function};

pub(super) const RAM: u64 = 0x8000_0000;
const RAM_BYTES: usize = 0x8_0000;
/// The firmware's page, behind the OS's memory.
pub(super) const SCRATCH: u64 = RAM + 0x7_f000;

#[derive(Debug)]
pub(super) struct Board {
    /// Functions as after a power-on.
    nodes: Vec<Node>,
    config: RefCell<Model>,
    memory: RefCell<Vec<u8>>,
    now: Cell<u64>,
    /// When the clock began to go slowly.
    since: Cell<u64>,
    accesses: Cell<u64>,
    /// Accesses until the power fails.
    left: Cell<u64>,
    messages: RefCell<Vec<(u64, u32)>>,
}

impl Board {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        Board {
            config: RefCell::new(Model::new(nodes.clone())),
            nodes,
            memory: RefCell::new(vec![0; RAM_BYTES]),
            now: Cell::new(1000),
            since: Cell::new(1000),
            accesses: Cell::new(0),
            left: Cell::new(u64::MAX),
            messages: RefCell::new(Vec::new()),
        }
    }

    /// Configuration space as after a power-on.
    pub(super) fn power_cycle(&self) {
        self.config.replace(Model::new(self.nodes.clone()));
        self.left.set(u64::MAX);
        self.slow_down();
        self.messages.borrow_mut().clear();
    }

    /// Has the clock go slowly again.
    pub(super) fn slow_down(&self) {
        self.since.set(self.now());
    }

    /// Looks at the clock, which takes a microsecond; more where one waits for long, so that
    /// half a minute takes no time, and much more where no power is.
    pub(super) fn pass(&self) -> u64 {
        let waited = self.now() - self.since.get();
        let step = if self.has_power() {
            1 + waited / 1024
        } else {
            1_000_000
        };
        self.now.set(self.now.get() + step);
        self.now.get()
    }

    pub(super) fn now(&self) -> u64 {
        self.now.get()
    }

    pub(super) fn has_power(&self) -> bool {
        self.left.get() > 0
    }

    pub(super) fn fail_after(&self, accesses: u64) {
        self.left.set(accesses);
    }

    /// Counts an access to a device; whether it reaches it.
    pub(super) fn access(&self) -> bool {
        let has_power = self.has_power();
        self.left.set(self.left.get().saturating_sub(1));
        self.accesses.set(self.accesses.get() + 1);
        self.pass();
        has_power
    }

    pub(super) fn accesses(&self) -> u64 {
        self.accesses.get()
    }

    pub(super) fn messages(&self) -> Vec<(u64, u32)> {
        self.messages.borrow().clone()
    }

    pub(super) fn take_messages(&self) -> Vec<(u64, u32)> {
        self.messages.take()
    }

    pub(super) fn config_read(&self, function: Function, register: u16) -> u32 {
        self.config.borrow().read32(function, register)
    }

    pub(super) fn config_write(&self, function: Function, register: u16, value: u32) {
        self.config.borrow().write32(function, register, value);
    }

    /// Memory, for a hart; `None` where there is none.
    pub(super) fn memory(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let start = usize::try_from(address.checked_sub(RAM)?).ok()?;
        let memory = self.memory.borrow();
        into.copy_from_slice(memory.get(start..start.checked_add(into.len())?)?);
        Some(())
    }

    pub(super) fn set_memory(&self, address: u64, bytes: &[u8]) -> Option<()> {
        let start = usize::try_from(address.checked_sub(RAM)?).ok()?;
        let mut memory = self.memory.borrow_mut();
        memory
            .get_mut(start..start.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        Some(())
    }

    pub(super) fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory(address, &mut bytes).unwrap_or(());
        u64::from_le_bytes(bytes)
    }

    pub(super) fn set_word(&self, address: u64, word: u64) {
        self.set_memory(address, &word.to_le_bytes()).unwrap();
    }

    /// Memory, for a device. What is none reads as zeros.
    pub(super) fn dma_read(&self, function: Function, address: u64, into: &mut [u8]) {
        self.assert_master(function);
        self.memory(address, into).unwrap_or(());
    }

    pub(super) fn dma_write(&self, function: Function, address: u64, bytes: &[u8]) {
        self.assert_master(function);
        self.set_memory(address, bytes).unwrap_or(());
    }

    fn assert_master(&self, function: Function) {
        let command = self.config_read(function, 4);
        assert!(command & 1 << 2 != 0, "it has no access to memory");
    }

    /// Sends a function's message, by its table if that is enabled.
    pub(super) fn interrupt(&self, function: Function, table: &[u32], vector: usize) {
        let read = |register: usize| self.config_read(function, u16::try_from(register).unwrap());
        if read(MSI_X) & 1 << 31 != 0 {
            if let Some([low, _, data, 0]) = table.get(4 * vector..4 * vector + 4) {
                self.send((*low).into(), *data);
            }
        } else if read(MSI) & 1 << 16 != 0 {
            self.send(read(MSI + 4).into(), read(MSI + 12));
        } else {
            // By its pin.
            self.send(0, 0);
        }
    }

    /// Notes a message.
    pub(super) fn send(&self, address: u64, data: u32) {
        self.messages.borrow_mut().push((address, data));
    }
}
