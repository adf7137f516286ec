//! A driver that does what Linux's does: any interrupt tells it that what is no longer in
//! PxSACT, or in PxCI, is done; and what is done has its buffer used for something else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

use poorwill_pci::Step;
use poorwill_pci::model::Node;

use super::disk::{Disk, READ_QUEUED, WRITE, WRITE_QUEUED};
use super::hba::{GHC, Hba, IS};
use super::port::*;
use crate::Window;
use crate::tests::board::RAM;
use crate::tests::machine::{FUNCTION, Fake};

/// What a port interrupts for, as Linux has it.
const INTERRUPTS: u32 = 0x7d40_00ff;

/// A command that the driver waits for.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    command: u8,
    lba: u8,
    value: u64,
}

pub(super) struct Driver {
    pub(super) machine: Fake,
    pub(super) hba: Rc<RefCell<Hba>>,
    outstanding: BTreeMap<(usize, u32), Outstanding>,
    /// What writes left that are done.
    acknowledged: BTreeMap<(usize, u8), u64>,
    /// Errors that it was told of.
    pub(super) errors: u32,
    last: u64,
}

impl Driver {
    pub(super) fn new(disks: Vec<Option<Disk>>) -> Self {
        let step = Step {
            device: FUNCTION.device,
            function: 0,
        };
        let mut node = Node::new(step, 0x0106_0101);
        node.bar(5, 0x2000, false);
        let hba = Rc::new(RefCell::new(Hba::new(disks)));
        let driver = Driver {
            machine: Fake::new(node, &[5], hba.clone()),
            hba,
            outstanding: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            errors: 0,
            last: 0,
        };
        driver.write(GHC, 1 << 31);
        let ports = driver.hba.borrow().ports.len();
        (0..ports).for_each(|port| driver.start(port));
        driver.write(GHC, 1 << 31 | 1 << 1);
        driver
    }

    /// Another look at the same machine.
    pub(super) fn again(&self, machine: &Fake) -> Self {
        Driver {
            machine: machine.again(),
            hba: self.hba.clone(),
            outstanding: self.outstanding.clone(),
            acknowledged: self.acknowledged.clone(),
            errors: self.errors,
            last: self.last,
        }
    }

    fn read(&self, register: u64) -> u32 {
        self.machine.bar(5).read32(register)
    }

    pub(super) fn write(&self, register: u64, value: u32) {
        self.machine.bar(5).write32(register, value);
    }

    pub(super) fn register(port: usize, register: u64) -> u64 {
        0x100 + 0x80 * port as u64 + register
    }

    pub(super) fn port_read(&self, port: usize, register: u64) -> u32 {
        self.read(Self::register(port, register))
    }

    pub(super) fn port_write(&self, port: usize, register: u64, value: u32) {
        self.write(Self::register(port, register), value);
    }

    /// Where a port's list is; behind it are its tables and buffers.
    fn memory(port: usize) -> u64 {
        RAM + 0x1_0000 * (port as u64 + 1)
    }

    fn buffer(port: usize, slot: u32) -> u64 {
        Self::memory(port) + 0x8000 + 0x200 * u64::from(slot)
    }

    fn start(&self, port: usize) {
        let list = u32::try_from(Self::memory(port)).unwrap();
        self.port_write(port, 0x00, list);
        self.port_write(port, 0x08, list + 0x400);
        self.port_write(port, CMD, 0b110 | FRE);
        if self.hba.borrow().ports[port].disk.is_none() {
            return;
        }
        while self.port_read(port, TFD) & 0x88 != 0 {}
        self.port_write(port, SERR, u32::MAX);
        self.port_write(port, PXIS, u32::MAX);
        self.port_write(port, CMD, 0b110 | FRE | ST);
        self.port_write(port, PXIE, INTERRUPTS);
    }

    /// Prepares a command for a free slot: a write of another value, or a read.
    pub(super) fn prepare(&mut self, port: usize, slot: u32, command: u8, lba: u8) {
        self.last += 1;
        let value = match command {
            WRITE | WRITE_QUEUED => self.last,
            _ => self.hba.borrow_mut().disk(port).sector(lba),
        };
        let outstanding = Outstanding {
            command,
            lba,
            value,
        };
        assert!(!self.outstanding.contains_key(&(port, slot)));
        self.outstanding.insert((port, slot), outstanding);
        let board = &self.machine.board;
        let table = Self::memory(port) + 0x1000 + 0x100 * u64::from(slot);
        let buffer = Self::buffer(port, slot);
        let header = Self::memory(port) + 32 * u64::from(slot);
        board.set_word(header, 5 | 1 << 16);
        board.set_word(header + 8, table);
        let mut fis = [0; 20];
        fis[..5].copy_from_slice(&[0x27, 0x80, command, 0, lba]);
        board.set_memory(table, &fis).unwrap();
        board.set_word(table + 0x80, buffer);
        let is_write = matches!(command, WRITE | WRITE_QUEUED);
        board.set_word(buffer, if is_write { value } else { 0 });
    }

    pub(super) fn activate(&self, port: usize, slot: u32) {
        self.port_write(port, SACT, 1 << slot);
    }

    pub(super) fn issue(&self, port: usize, slot: u32) {
        self.port_write(port, CI, 1 << slot);
    }

    pub(super) fn submit(&mut self, port: usize, slot: u32, command: u8, lba: u8) {
        self.prepare(port, slot, command, lba);
        if matches!(command, WRITE_QUEUED | READ_QUEUED) {
            self.activate(port, slot);
        }
        self.issue(port, slot);
    }

    fn interrupt(&mut self) {
        let ports = self.read(IS);
        for port in (0..32).filter(|port| ports >> port & 1 != 0) {
            let status = self.port_read(port, PXIS);
            self.port_write(port, PXIS, status);
            self.errors |= status & 0x7d40_0040;
            self.complete(port);
        }
        self.write(IS, ports);
    }

    fn complete(&mut self, port: usize) {
        let is_queued = |one: &Outstanding| matches!(one.command, WRITE_QUEUED | READ_QUEUED);
        let mut of_port = self.outstanding.iter().filter(|((of, _), _)| *of == port);
        let register = if of_port.any(|(_, one)| is_queued(one)) {
            SACT
        } else {
            CI
        };
        let active = self.port_read(port, register);
        for slot in (0..32).filter(|slot| active >> slot & 1 == 0) {
            let Some(one) = self.outstanding.remove(&(port, slot)) else {
                continue;
            };
            let buffer = Self::buffer(port, slot);
            if matches!(one.command, WRITE | WRITE_QUEUED) {
                self.acknowledged.insert((port, one.lba), one.value);
            } else {
                assert_eq!(self.machine.board.word(buffer), one.value, "read {one:?}");
            }
            self.machine.board.set_word(buffer, 0xa5a5_a5a5_a5a5_a5a5);
        }
    }

    /// Time passes, and interrupts come.
    pub(super) fn run(&mut self, microseconds: u64) {
        self.machine.board.slow_down();
        let end = self.machine.board.now() + microseconds;
        while self.machine.board.pass() < end {
            self.hba.borrow_mut().tick(&self.machine.board);
            if !self.machine.board.take_messages().is_empty() {
                self.interrupt();
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// After 30 s a driver resets the disk, and repeats what was outstanding.
    pub(super) fn time_out(&mut self, port: usize) {
        self.port_write(port, PXIE, 0);
        self.port_write(port, CMD, 0b110 | FRE);
        self.run(10);
        self.port_write(port, SCTL, 1);
        self.run(1100);
        self.port_write(port, SCTL, 0);
        self.run(200);
        self.port_write(port, CMD, 0b110);
        self.run(10);
        self.start(port);
        let again: Vec<_> = self.outstanding.keys().copied().collect();
        for (_, slot) in again.into_iter().filter(|(of, _)| *of == port) {
            let one = self.outstanding[&(port, slot)];
            if matches!(one.command, WRITE_QUEUED | READ_QUEUED) {
                self.activate(port, slot);
            }
            self.issue(port, slot);
        }
    }

    /// All that was acknowledged is on its disk.
    pub(super) fn verify(&self) {
        let mut hba = self.hba.borrow_mut();
        for ((port, lba), value) in &self.acknowledged {
            assert_eq!(hba.disk(*port).sector(*lba), *value, "sector {lba}");
        }
    }
}
