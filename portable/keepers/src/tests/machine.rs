use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use poorwill_medium::nvme::ShutdownFacts;
use poorwill_pci::model::{COMMAND, MSI, MSI_X, Node, host};
use poorwill_pci::{ConfigSpace, Function, HostBridge, bar_address};

use super::board::{Board, SCRATCH};
use crate::{Machine, Window};

/// Where the only function is.
pub(super) const FUNCTION: Function = Function {
    bus: 0,
    device: 2,
    function: 0,
};

/// Where BARs are put, and how far from one another.
const BARS: u64 = 0x4000_0000;
const BAR_STRIDE: u64 = 0x10_0000;

/// A device's registers.
pub(super) trait Registers {
    fn read(&mut self, board: &Board, bar: u8, offset: u64) -> u32;
    fn write(&mut self, board: &Board, bar: u8, offset: u64, value: u32);
    /// Forgets everything.
    fn power_on(&mut self, board: &Board);
}

/// One that the test looks into.
impl<T: Registers> Registers for Rc<RefCell<T>> {
    fn read(&mut self, board: &Board, bar: u8, offset: u64) -> u32 {
        self.borrow_mut().read(board, bar, offset)
    }

    fn write(&mut self, board: &Board, bar: u8, offset: u64, value: u32) {
        self.borrow_mut().write(board, bar, offset, value);
    }

    fn power_on(&mut self, board: &Board) {
        self.borrow_mut().power_on(board);
    }
}

type Shared = Rc<RefCell<Box<dyn Registers>>>;

/// A machine with one device.
pub(super) struct Fake {
    pub(super) board: Rc<Board>,
    device: Shared,
    bars: Vec<u8>,
    host: HostBridge,
    /// What is known of the device's shutdown.
    pub(super) facts: Rc<Cell<Option<ShutdownFacts>>>,
}

pub(super) struct Config(Rc<Board>);

pub(super) struct BarWindow {
    board: Rc<Board>,
    device: Shared,
    bar: u8,
    offset: u64,
}

impl Fake {
    /// A machine as its OS has set up its PCI bus: with messages by a table, or one.
    pub(super) fn new(node: Node, bars: &[u8], device: impl Registers + 'static) -> Self {
        let has_table = bars.len() > 1;
        let board = Rc::new(Board::new(vec![node]));
        let machine = Fake {
            device: Rc::new(RefCell::new(Box::new(device))),
            board,
            bars: bars.to_vec(),
            host: host(),
            facts: Rc::default(),
        };
        machine.device.borrow_mut().power_on(&machine.board);
        for bar in bars {
            let address = BARS + u64::from(*bar) * BAR_STRIDE;
            machine.configure(0x10 + 4 * usize::from(*bar), address.try_into().unwrap());
        }
        machine.configure(COMMAND, 0x0006);
        if has_table {
            machine.configure(MSI_X, 1 << 31);
        } else {
            machine.configure(MSI + 4, 0x2800_0000);
            machine.configure(MSI + 12, 7);
            machine.configure(MSI, 1 << 16);
        }
        machine
    }

    /// The same machine.
    pub(super) fn again(&self) -> Self {
        Fake {
            board: self.board.clone(),
            device: self.device.clone(),
            bars: self.bars.clone(),
            host: self.host.clone(),
            facts: self.facts.clone(),
        }
    }

    fn configure(&self, register: usize, value: u32) {
        let register = register.try_into().unwrap();
        self.board.config_write(FUNCTION, register, value);
    }

    /// The power goes, and comes back.
    pub(super) fn power_cycle(&self) {
        self.board.power_cycle();
        self.facts.set(None);
        self.device.borrow_mut().power_on(&self.board);
    }

    /// A BAR's registers, for a driver.
    pub(super) fn bar(&self, bar: u8) -> BarWindow {
        self.window(BARS + u64::from(bar) * BAR_STRIDE)
    }
}

impl ConfigSpace for Config {
    fn read32(&self, function: Function, register: u16) -> u32 {
        if self.0.access() {
            self.0.config_read(function, register)
        } else {
            u32::MAX
        }
    }

    fn write32(&self, function: Function, register: u16, value: u32) {
        if self.0.access() {
            self.0.config_write(function, register, value);
        }
    }
}

impl BarWindow {
    fn reaches(&self) -> bool {
        let command = self.board.config_read(FUNCTION, 4);
        self.board.access() && {
            assert!(command & 1 << 1 != 0, "it does not decode its addresses");
            true
        }
    }
}

impl Window for BarWindow {
    fn read32(&self, offset: u64) -> u32 {
        let offset = self.offset + offset;
        assert!(offset.is_multiple_of(4));
        if !self.reaches() {
            return u32::MAX;
        }
        self.device.borrow_mut().read(&self.board, self.bar, offset)
    }

    fn write32(&self, offset: u64, value: u32) {
        let offset = self.offset + offset;
        assert!(offset.is_multiple_of(4));
        if self.reaches() {
            self.device
                .borrow_mut()
                .write(&self.board, self.bar, offset, value);
        }
    }
}

impl Machine for Fake {
    type Config = Config;
    type Window = BarWindow;

    fn hosts(&self) -> usize {
        1
    }

    fn host(&self, _: usize) -> &HostBridge {
        &self.host
    }

    fn config(&self, _: usize) -> Config {
        Config(self.board.clone())
    }

    fn window(&self, cpu_address: u64) -> BarWindow {
        let found = self.bars.iter().find_map(|bar| {
            let config = Config(self.board.clone());
            let start = bar_address(&config, FUNCTION, *bar)?;
            let offset = cpu_address.checked_sub(start)?;
            (offset < BAR_STRIDE).then_some((*bar, offset))
        });
        // Without power there is none.
        let (bar, offset) = found.unwrap_or((0, 0));
        assert!(found.is_some() || !self.board.has_power());
        BarWindow {
            board: self.board.clone(),
            device: self.device.clone(),
            bar,
            offset,
        }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        self.board.memory(address, into)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
        self.board.set_memory(address, bytes)
    }

    fn send(&self, address: u64, data: u32) -> Option<()> {
        self.board.send(address, data);
        Some(())
    }

    fn scratch(&self) -> u64 {
        SCRATCH
    }

    fn shutdown_facts(&self, host: usize, function: Function) -> Option<ShutdownFacts> {
        assert_eq!((host, function), (0, FUNCTION));
        self.facts.get()
    }

    fn keep_shutdown_facts(&self, host: usize, function: Function, facts: ShutdownFacts) {
        assert_eq!((host, function), (0, FUNCTION));
        self.facts.set(Some(facts));
    }

    fn microseconds(&self) -> u64 {
        self.board.pass()
    }
}
