//! A modelled SATA disk: a cache that its power takes with it, a medium.

use std::collections::BTreeMap;
use std::vec::Vec;

use crate::tests::board::Board;
use crate::tests::machine::FUNCTION;

pub(super) const WRITE_QUEUED: u8 = 0x61;
pub(super) const READ_QUEUED: u8 = 0x60;
pub(super) const WRITE: u8 = 0x35;
pub(super) const READ: u8 = 0x25;
const FLUSH: u8 = 0xe7;
const FLUSH_EXT: u8 = 0xea;
const IDENTIFY: u8 = 0xec;
const IDENTIFY_PACKET: u8 = 0xa1;
const SET_FEATURES: u8 = 0xef;

pub(super) const WRITE_CACHE: u16 = 1 << 5;
pub(super) const LOOK_AHEAD: u16 = 1 << 6;

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) is_packet: bool,
    pub(super) serial: u16,
    pub(super) has_flush_ext: bool,
    pub(super) is_secured: bool,
    pub(super) is_locked: bool,
    /// Features that are on, and are after a power-on.
    pub(super) features: u16,
    /// Microseconds until it accepts a command.
    pub(super) accept_us: u64,
    /// Microseconds for a command with data, and for a flush.
    pub(super) latency: u64,
    pub(super) flush_us: u64,
    /// Microseconds from the power-on until it is ready.
    pub(super) spin_up_us: u64,
    pub(super) medium: BTreeMap<u8, u64>,
    pub(super) cache: BTreeMap<u8, u64>,
    /// Commands that were executed, but the keeper's own.
    pub(super) executed: Vec<u8>,
    pub(super) flushes: u32,
}

/// A command as it comes from the HBA.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) fis: [u8; 20],
    pub(super) buffer: Option<u64>,
}

impl Request {
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.fis[2], WRITE_QUEUED | READ_QUEUED)
    }

    pub(super) fn is_pio(&self) -> bool {
        matches!(self.fis[2], IDENTIFY | IDENTIFY_PACKET)
    }
}

impl Disk {
    pub(super) fn new() -> Self {
        Disk {
            is_packet: false,
            serial: 0x4142,
            has_flush_ext: true,
            is_secured: false,
            is_locked: false,
            features: WRITE_CACHE | LOOK_AHEAD,
            accept_us: 4,
            latency: 100,
            flush_us: 500,
            spin_up_us: 3000,
            medium: BTreeMap::new(),
            cache: BTreeMap::new(),
            executed: Vec::new(),
            flushes: 0,
        }
    }

    pub(super) fn signature(&self) -> u32 {
        if self.is_packet { 0xeb14_0101 } else { 0x101 }
    }

    pub(super) fn power_on(&mut self) {
        self.cache.clear();
        self.features = WRITE_CACHE | LOOK_AHEAD;
        self.is_locked = self.is_secured;
    }

    /// What is read of a sector.
    pub(super) fn sector(&self, lba: u8) -> u64 {
        let found = self.cache.get(&lba).or_else(|| self.medium.get(&lba));
        found.copied().unwrap_or(0)
    }

    pub(super) fn microseconds(&self, request: &Request) -> u64 {
        match request.fis[2] {
            WRITE_QUEUED | READ_QUEUED | WRITE | READ => self.latency,
            FLUSH | FLUSH_EXT => self.flush_us,
            _ => 20,
        }
    }

    /// Executes a command; `None` if it is aborted.
    pub(super) fn execute(&mut self, board: &Board, request: &Request) -> Option<()> {
        let fis = &request.fis;
        let lba = fis[4];
        match (fis[2], self.is_packet) {
            (IDENTIFY, false) | (IDENTIFY_PACKET, true) => self.identify(board, request.buffer?),
            (WRITE_QUEUED | WRITE, false) if !self.is_locked => {
                let mut bytes = [0; 8];
                board.dma_read(FUNCTION, request.buffer?, &mut bytes);
                self.executed.push(lba);
                let is_cached = self.features & WRITE_CACHE != 0;
                let into = if is_cached {
                    &mut self.cache
                } else {
                    &mut self.medium
                };
                into.insert(lba, u64::from_le_bytes(bytes));
            }
            (READ_QUEUED | READ, false) if !self.is_locked => {
                self.executed.push(lba);
                board.dma_write(FUNCTION, request.buffer?, &self.sector(lba).to_le_bytes());
            }
            (FLUSH, false) => self.flush(),
            (FLUSH_EXT, false) if self.has_flush_ext => self.flush(),
            (SET_FEATURES, false) => match fis[3] {
                0x02 => self.features |= WRITE_CACHE,
                0x82 => self.features &= !WRITE_CACHE,
                0xaa => self.features |= LOOK_AHEAD,
                0x55 => self.features &= !LOOK_AHEAD,
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    fn flush(&mut self) {
        self.flushes += 1;
        self.medium.append(&mut self.cache);
    }

    fn identify(&self, board: &Board, buffer: u64) {
        let mut words = [0u16; 256];
        words[10] = self.serial;
        words[83] = 0x4000 | u16::from(self.has_flush_ext) << 13;
        words[85] = self.features;
        words[128] = u16::from(self.is_secured) << 1;
        let bytes = words.map(u16::to_le_bytes);
        board.dma_write(FUNCTION, buffer, bytes.as_flattened());
    }
}
