//! A modelled HBA.

use std::vec::Vec;

use super::disk::Disk;
use super::port::Port;
use crate::tests::board::Board;
use crate::tests::machine::{FUNCTION, Registers};

pub(super) const CAP: u64 = 0x00;
pub(super) const GHC: u64 = 0x04;
pub(super) const IS: u64 = 0x08;
const PI: u64 = 0x0c;
const CCC_CTL: u64 = 0x14;

const IE: u32 = 1 << 1;
const AE: u32 = 1 << 31;

#[derive(Clone, Debug)]
pub(super) struct Hba {
    pub(super) capabilities: u32,
    pub(super) control: u32,
    pub(super) coalescing: u32,
    status: u32,
    pub(super) ports: Vec<Port>,
}

impl Hba {
    pub(super) fn new(disks: Vec<Option<Disk>>) -> Self {
        Hba {
            capabilities: 1 << 31 | 1 << 30 | 31 << 8,
            control: 0,
            coalescing: 0,
            status: 0,
            ports: disks.into_iter().map(Port::new).collect(),
        }
    }

    pub(super) fn disk(&mut self, port: usize) -> &mut Disk {
        self.ports[port].disk.as_mut().unwrap()
    }

    /// Lets everything happen that is due, interrupts among it: a message is sent when a
    /// port comes to be pending, and not when interrupts are enabled later.
    pub(super) fn tick(&mut self, board: &Board) {
        for (number, port) in self.ports.iter_mut().enumerate() {
            port.tick(board);
            if port.pending & port.enabled != 0 && self.status >> number & 1 == 0 {
                self.status |= 1 << number;
                if self.control & IE != 0 {
                    board.interrupt(FUNCTION, &[], 0);
                }
            }
        }
    }

    fn implemented(&self) -> u32 {
        (1 << self.ports.len()) - 1
    }

    fn port(&mut self, offset: u64) -> Option<(&mut Port, u64)> {
        let place = usize::try_from(offset.checked_sub(0x100)? / 0x80).unwrap();
        Some((self.ports.get_mut(place)?, offset % 0x80))
    }
}

impl Registers for Hba {
    fn read(&mut self, board: &Board, _: u8, offset: u64) -> u32 {
        self.tick(board);
        match offset {
            CAP => self.capabilities,
            GHC => self.control,
            IS => self.status,
            PI => self.implemented(),
            CCC_CTL => self.coalescing,
            _ => self
                .port(offset)
                .map_or(0, |(port, register)| port.read(board.now(), register)),
        }
    }

    fn write(&mut self, board: &Board, _: u8, offset: u64, value: u32) {
        self.tick(board);
        match offset {
            GHC => {
                assert!(value & 1 == 0, "this loses what disks have cached");
                self.control = value & (IE | AE);
            }
            IS => self.status &= !value,
            _ => {
                let is_enabled = self.control & AE != 0;
                if let Some((port, register)) = self.port(offset) {
                    assert!(is_enabled, "AHCI is off");
                    port.write(board.now(), register, value);
                }
            }
        }
        self.tick(board);
    }

    fn power_on(&mut self, board: &Board) {
        self.control = 0;
        self.status = 0;
        for port in &mut self.ports {
            port.power_on(board.now());
        }
    }
}
