//! A modelled 82574: its rings, its interrupts, its resets.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use crate::tests::board::Board;
use crate::tests::machine::{FUNCTION, Registers};

pub(super) const CTRL: u64 = 0x00;
pub(super) const STATUS: u64 = 0x08;
const EECD: u64 = 0x10;
pub(super) const EERD: u64 = 0x14;
pub(super) const MDIC: u64 = 0x20;
const ICR: u64 = 0xc0;
const ICS: u64 = 0xc8;
pub(super) const IMS: u64 = 0xd0;
pub(super) const IMC: u64 = 0xd8;
pub(super) const IVAR: u64 = 0xe4;
pub(super) const RCTL: u64 = 0x100;
pub(super) const TCTL: u64 = 0x400;
pub(super) const PBA: u64 = 0x1000;
pub(super) const RDBAL: u64 = 0x2800;
pub(super) const RDLEN: u64 = 0x2808;
pub(super) const RDH: u64 = 0x2810;
pub(super) const RDT: u64 = 0x2818;
const RDTR: u64 = 0x2820;
pub(super) const TDBAL: u64 = 0x3800;
pub(super) const TDLEN: u64 = 0x3808;
pub(super) const TDH: u64 = 0x3810;
pub(super) const TDT: u64 = 0x3818;
const TIDV: u64 = 0x3820;
pub(super) const TXDCTL: u64 = 0x3828;

const ENABLE: u32 = 1 << 1;
pub(super) const RXQ0: u32 = 1 << 20;
pub(super) const TXQ0: u32 = 1 << 22;
pub(super) const OTHER: u32 = 1 << 24;

/// Microseconds from a reset until the NVM was read.
const NVM_US: u64 = 2000;

#[derive(Debug, Default)]
pub(super) struct Model {
    registers: BTreeMap<u64, u32>,
    /// BAR 3: the table of messages.
    table: Vec<u32>,
    /// How the buffer is divided: as of the last reset.
    pub(super) division: u32,
    /// No access until then.
    untouchable_until: u64,
    nvm_read_at: u64,
    /// Descriptors that are done with, and not written back.
    held: Vec<u64>,
    /// When the last write to memory is over.
    quiet_at: u64,
    /// Writes to memory never end.
    pub(super) is_stuck: bool,
    /// How many packets the wire takes.
    pub(super) budget: u32,
    /// It takes one more at each 64th access.
    pub(super) is_trickling: bool,
    /// One more is sent while it is being disabled.
    pub(super) has_one_under_way: bool,
    /// What was sent.
    pub(super) wire: Vec<u64>,
}

impl Model {
    pub(super) fn get(&self, register: u64) -> u32 {
        self.registers.get(&register).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, register: u64, value: u32) {
        self.registers.insert(register, value);
    }

    /// All registers that are not 0.
    pub(super) fn registers(&self) -> BTreeMap<u64, u32> {
        let set = self.registers.iter().filter(|(_, value)| **value != 0);
        set.map(|(register, value)| (*register, *value)).collect()
    }

    fn reset(&mut self, now: u64) {
        let buffers = self.get(PBA);
        self.registers.clear();
        self.held.clear();
        self.set(PBA, buffers);
        self.set(0x5400, 0x1234_5678);
        self.division = buffers;
        self.nvm_read_at = now + NVM_US;
        self.untouchable_until = now + 4;
    }

    /// Takes a packet from the wire; whether there was room.
    pub(super) fn receive(&mut self, board: &Board, packet: u64) -> bool {
        let head = self.get(RDH);
        if self.get(RCTL) & ENABLE == 0 || head == self.get(RDT) {
            return false;
        }
        let descriptor = u64::from(self.get(RDBAL)) + 16 * u64::from(head);
        board.dma_write(FUNCTION, descriptor, &packet.to_le_bytes());
        board.dma_write(FUNCTION, descriptor + 8, &1u64.to_le_bytes());
        self.set(RDH, (head + 1) % (self.get(RDLEN) / 16));
        self.cause(board, RXQ0);
        true
    }

    /// Sends what the wire takes.
    pub(super) fn transmit(&mut self, board: &Board) {
        while self.get(TCTL) & ENABLE != 0 && self.budget > 0 && self.transmit_one(board) {
            self.budget -= 1;
        }
    }

    fn trickle(&mut self, board: &Board) {
        self.budget += u32::from(self.is_trickling && board.accesses().is_multiple_of(64));
        self.transmit(board);
    }

    fn transmit_one(&mut self, board: &Board) -> bool {
        let head = self.get(TDH);
        if head == self.get(TDT) {
            return false;
        }
        let descriptor = u64::from(self.get(TDBAL)) + 16 * u64::from(head);
        let mut packet = [0; 8];
        board.dma_read(FUNCTION, descriptor, &mut packet);
        self.wire.push(u64::from_le_bytes(packet));
        self.held.push(descriptor + 8);
        self.set(TDH, (head + 1) % (self.get(TDLEN) / 16));
        if self.held.len() >= (self.get(TXDCTL) >> 16 & 0x1f) as usize {
            self.write_back(board);
        }
        true
    }

    fn write_back(&mut self, board: &Board) {
        self.quiet_at = board.now() + 30;
        for descriptor in core::mem::take(&mut self.held) {
            board.dma_write(FUNCTION, descriptor, &1u64.to_le_bytes());
        }
        self.cause(board, TXQ0);
    }

    fn cause(&mut self, board: &Board, causes: u32) {
        let before = self.get(ICR) & self.get(IMS);
        self.set(ICR, self.get(ICR) | causes);
        self.notify(board, before);
    }

    fn notify(&mut self, board: &Board, before: u32) {
        let raised = self.get(ICR) & self.get(IMS) & !before;
        for (cause, place) in [(RXQ0, 0), (TXQ0, 8), (OTHER, 16)] {
            let entry = self.get(IVAR) >> place & 0xf;
            if raised & cause != 0 && entry & 8 != 0 {
                board.interrupt(FUNCTION, &self.table, (entry & 7) as usize);
                // As with EIAC.
                self.set(ICR, self.get(ICR) & !cause);
            }
        }
    }

    fn status(&self, now: u64) -> u32 {
        let is_quiet = self.get(CTRL) & 1 << 2 != 0 && now >= self.quiet_at && !self.is_stuck;
        if is_quiet { 0 } else { 1 << 19 }
    }

    fn control(&mut self, board: &Board, register: u64, value: u32) {
        let was = self.get(register);
        self.set(register, value);
        if register == TCTL && was & ENABLE & !value != 0 && self.has_one_under_way {
            self.has_one_under_way = false;
            self.transmit_one(board);
        }
    }
}

impl Registers for Model {
    fn read(&mut self, board: &Board, bar: u8, offset: u64) -> u32 {
        if bar == 3 {
            return self.table[usize::try_from(offset / 4).unwrap()];
        }
        assert!(board.now() >= self.untouchable_until, "it is being reset");
        self.trickle(board);
        assert_ne!(offset, ICR, "reading this forgets interrupts");
        match offset {
            STATUS => self.status(board.now()),
            EECD => u32::from(board.now() >= self.nvm_read_at) << 9,
            IMC => 0,
            _ => self.get(offset),
        }
    }

    fn write(&mut self, board: &Board, bar: u8, offset: u64, value: u32) {
        if bar == 3 {
            self.table[usize::try_from(offset / 4).unwrap()] = value;
            return;
        }
        assert!(board.now() >= self.untouchable_until, "it is being reset");
        match offset {
            CTRL if value & 1 << 26 != 0 => self.reset(board.now()),
            EERD if value & 1 != 0 => {
                let address = value & 0xfffc;
                self.set(EERD, address | 2 | (address / 4 + 0x100) << 16);
            }
            MDIC if value & 1 << 28 == 0 => {
                let register = value >> 16 & 0x1f;
                self.set(MDIC, value & 0xffff_0000 | 1 << 28 | (register + 0x200));
            }
            STATUS | EECD | ICR => {}
            ICS => self.cause(board, value),
            IMS => {
                let before = self.get(ICR) & self.get(IMS);
                self.set(IMS, self.get(IMS) | value);
                self.notify(board, before);
            }
            IMC => self.set(IMS, self.get(IMS) & !value),
            RDTR | TIDV => {
                if value & 1 << 31 != 0 {
                    self.write_back(board);
                }
                self.set(offset, value & 0xffff);
            }
            RCTL | TCTL => self.control(board, offset, value),
            _ => self.set(offset, value),
        }
        self.trickle(board);
    }

    fn power_on(&mut self, board: &Board) {
        self.set(PBA, 0x0014_0014);
        self.reset(board.now());
        self.set(PBA, 0x0014_0014);
        self.untouchable_until = 0;
        self.table = vec![0; 20];
        self.quiet_at = 0;
    }
}
