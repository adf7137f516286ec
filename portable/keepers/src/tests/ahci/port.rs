//! A port of a modelled HBA, as strict as the specification: what must not be done panics.

use std::vec::Vec;

use super::disk::{Disk, Request};
use crate::tests::board::Board;
use crate::tests::machine::FUNCTION;

pub(super) const PXIS: u64 = 0x10;
pub(super) const PXIE: u64 = 0x14;
pub(super) const CMD: u64 = 0x18;
pub(super) const TFD: u64 = 0x20;
const SIG: u64 = 0x24;
const SSTS: u64 = 0x28;
pub(super) const SCTL: u64 = 0x2c;
pub(super) const SERR: u64 = 0x30;
pub(super) const SACT: u64 = 0x34;
pub(super) const CI: u64 = 0x38;
const FBS: u64 = 0x40;

pub(super) const ST: u32 = 1;
pub(super) const FRE: u32 = 1 << 4;
const FR: u32 = 1 << 14;
const CR: u32 = 1 << 15;
const PMA: u32 = 1 << 17;

pub(super) const DHRS: u32 = 1 << 0;
pub(super) const PSS: u32 = 1 << 1;
pub(super) const SDBS: u32 = 1 << 3;
const PCS: u32 = 1 << 6;
pub(super) const TFES: u32 = 1 << 30;

pub(super) const BUSY: u32 = 0x80;
pub(super) const READY: u32 = 0x50;

/// Microseconds until an engine stops, and the link is up.
const ENGINE_US: u64 = 5;
const LINK_US: u64 = 20;
const RESET_US: u64 = 60;

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) slot: u32,
    pub(super) request: Request,
    pub(super) done_at: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    pub(super) disk: Option<Disk>,
    /// A driver may do what it wants, and so may a record.
    pub(super) is_lenient: bool,
    pub(super) list: [u32; 2],
    pub(super) fis: [u32; 2],
    pub(super) pending: u32,
    pub(super) enabled: u32,
    pub(super) command: u32,
    pub(super) task_file: u32,
    signature: u32,
    pub(super) link_control: u32,
    errors: u32,
    pub(super) active: u32,
    pub(super) issued: u32,
    pub(super) switching: u32,
    has_link: bool,
    link_at: u64,
    ready_at: u64,
    has_signature: bool,
    reset_since: u64,
    list_runs_until: u64,
    fis_runs_until: u64,
    pub(super) accepts_at: u64,
    pub(super) running: Vec<Running>,
}

impl Port {
    pub(super) fn new(disk: Option<Disk>) -> Self {
        Port {
            disk,
            ..Port::default()
        }
    }

    pub(super) fn must(&self, condition: bool, rule: &str) {
        assert!(condition || self.is_lenient, "{rule}");
    }

    pub(super) fn power_on(&mut self, now: u64) {
        let mut disk = self.disk.take();
        let spin_up = disk.as_ref().map_or(0, |disk| disk.spin_up_us);
        if let Some(disk) = &mut disk {
            disk.power_on();
        }
        *self = Port {
            disk,
            is_lenient: self.is_lenient,
            command: 0b110,
            task_file: 0x7f | BUSY,
            signature: u32::MAX,
            link_at: now + LINK_US,
            ready_at: now + LINK_US + spin_up,
            ..Port::default()
        };
    }

    fn accept_us(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.accept_us)
    }

    /// Whether commands are executed.
    fn runs(&self) -> bool {
        self.command & ST != 0 && self.has_link
    }

    fn receives(&self, now: u64) -> bool {
        self.command & FRE != 0 || now < self.fis_runs_until
    }

    /// Lets everything happen that is due.
    pub(super) fn tick(&mut self, board: &Board) {
        let now = board.now();
        let Some(mut disk) = self.disk.take() else {
            return;
        };
        let in_reset = self.link_control & 0xf == 1;
        if !self.has_link && !in_reset && now >= self.link_at {
            self.has_link = true;
            self.errors |= 1 << 26;
            self.pending |= PCS;
        }
        if self.has_link && !self.has_signature && now >= self.ready_at && self.receives(now) {
            self.has_signature = true;
            self.signature = disk.signature();
            self.task_file = READY;
            self.post(board, 0x40, READY);
        }
        if self.runs() {
            self.complete(board, &mut disk);
            self.accept(board, &disk);
        }
        self.disk = Some(disk);
    }

    /// Writes a FIS to memory.
    pub(super) fn post(&self, board: &Board, offset: u64, content: u32) {
        let area = u64::from(self.fis[0]) | u64::from(self.fis[1]) << 32;
        board.dma_write(FUNCTION, area + offset, &content.to_le_bytes());
    }

    pub(super) fn read(&self, now: u64, register: u64) -> u32 {
        let is_present = self.has_link && self.disk.is_some();
        match register {
            0x00 => self.list[0],
            0x04 => self.list[1],
            0x08 => self.fis[0],
            0x0c => self.fis[1],
            PXIS => self.pending,
            PXIE => self.enabled,
            CMD => {
                let list_runs = self.command & ST != 0 || now < self.list_runs_until;
                let fis_runs = self.receives(now);
                self.command | if list_runs { CR } else { 0 } | if fis_runs { FR } else { 0 }
            }
            TFD => self.task_file,
            SIG => self.signature,
            SSTS => {
                if is_present {
                    0x113
                } else {
                    0
                }
            }
            SCTL => self.link_control,
            SERR => self.errors,
            SACT => self.active,
            CI => self.issued,
            FBS => self.switching,
            _ => 0,
        }
    }

    pub(super) fn write(&mut self, now: u64, register: u64, value: u32) {
        let command = self.read(now, CMD);
        match register {
            0x00 | 0x04 => {
                self.must(command & CR == 0, "the command list is in use");
                self.list[usize::from(register == 4)] = value;
            }
            0x08 | 0x0c => {
                self.must(command & FR == 0, "the area for FISes is in use");
                self.fis[usize::from(register == 0xc)] = value;
            }
            PXIS => self.pending &= !value | self.pending & PCS,
            PXIE => self.enabled = value,
            CMD => self.write_command(now, value),
            SCTL => self.write_link_control(now, value),
            SERR => {
                self.errors &= !value;
                if self.errors & 1 << 26 == 0 {
                    self.pending &= !PCS;
                }
            }
            SACT | CI => {
                self.must(self.command & ST != 0 || value == 0, "the port is stopped");
                if register == SACT {
                    self.active |= value;
                } else if value != 0 {
                    self.issued |= value;
                    self.accepts_at = now + self.accept_us();
                }
            }
            _ => {}
        }
    }

    fn write_command(&mut self, now: u64, value: u32) {
        let was = self.command;
        self.command = value & !(FR | CR | PMA) | was & PMA;
        if was & ST == 0 && value & ST != 0 {
            self.must(self.receives(now), "started without an area for FISes");
            self.must(self.task_file & 0x88 == 0, "started while the disk is busy");
            self.must(self.running.is_empty(), "the disk has commands of before");
            self.accepts_at = now + self.accept_us();
        }
        if was & ST != 0 && value & ST == 0 {
            self.active = 0;
            self.issued = 0;
            self.list_runs_until = now + ENGINE_US;
        }
        if was & FRE != 0 && value & FRE == 0 {
            let is_running = value & ST != 0 || now < self.list_runs_until;
            self.must(!is_running, "it receives no FIS of commands");
            self.fis_runs_until = now + ENGINE_US;
        }
    }

    fn write_link_control(&mut self, now: u64, value: u32) {
        let was = self.link_control & 0xf;
        self.link_control = value;
        match (was, value & 0xf) {
            (0, 1) => {
                self.must(self.command & ST == 0, "reset while it runs");
                self.has_link = false;
                self.has_signature = false;
                self.task_file = 0x7f | BUSY;
                self.signature = u32::MAX;
                self.running.clear();
                self.reset_since = now;
            }
            (1, 0) => {
                self.must(now - self.reset_since >= 1000, "too short a reset");
                self.link_at = now + LINK_US;
                self.ready_at = now + RESET_US;
            }
            _ => {}
        }
    }
}
