//! A modelled bank: chips side by side, each with its own modes and faults.

use std::cell::{Ref, RefCell};

use poorwill_clock::Clock;

use crate::cfi::Registers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Array,
    Status,
    Query,
    Identity,
    Program,
    Erase,
    Lock,
}

/// What a chip does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Status bits that erasing ends with; nothing is erased.
    Erase(u8),
    /// Status bits that programming ends with; nothing is programmed.
    Program(u8),
    /// Blocks stay locked.
    StaysLocked,
    /// Erasing does not end.
    EraseStalls,
    /// Programming does not end.
    ProgramStalls,
    /// Unlocking does not end.
    UnlockStalls,
}

#[derive(Debug)]
pub(super) struct Chip {
    pub(super) words: Vec<u32>,
    pub(super) mode: Mode,
    pub(super) status: u8,
    pub(super) table: Vec<u8>,
    pub(super) fault: Fault,
    /// One for each block; empty where the chip has no locks.
    pub(super) locked: Vec<bool>,
    /// Words of each block.
    pub(super) blocks: Vec<usize>,
    /// Until when it is busy.
    pub(super) busy_until: u64,
    pub(super) unlocks: usize,
    /// As QEMU's: programming sets a word, clearing the status clears all of it,
    /// and the first of the two erase commands erases.
    pub(super) is_emulated: bool,
    mask: u32,
}

#[derive(Debug)]
pub(super) struct Bank(RefCell<State>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) chips: Vec<Chip>,
    pub(super) length: u64,
    pub(super) width: u8,
    pub(super) chip_width: u8,
    /// Programs and erases take this many milliseconds.
    pub(super) duration: u64,
    pub(super) now: u64,
    pub(super) programs: usize,
}

/// Regions of blocks: how many, and the bytes of each in one chip.
pub(super) type Regions<'a> = &'a [(usize, usize)];

/// The query table of a chip.
pub(super) fn table(regions: Regions<'_>, can_unlock: bool) -> Vec<u8> {
    let bytes: usize = regions.iter().map(|(count, bytes)| count * bytes).sum();
    let mut table = vec![0; 0x60];
    table[0x10..0x13].copy_from_slice(b"QRY");
    table[0x13] = 1;
    table[0x15] = 0x48;
    table[0x1f] = 7;
    table[0x21] = 10;
    table[0x23] = 4;
    table[0x25] = 4;
    table[0x27] = bytes.trailing_zeros() as u8;
    table[0x2c] = regions.len() as u8;
    for ((count, bytes), entry) in regions.iter().zip(table[0x2d..].chunks_mut(4)) {
        entry[..2].copy_from_slice(&((count - 1) as u16).to_le_bytes());
        let units = if *bytes == 128 { 0 } else { bytes / 256 };
        entry[2..].copy_from_slice(&(units as u16).to_le_bytes());
    }
    table[0x48..0x4d].copy_from_slice(b"PRI11");
    table[0x4d] = u8::from(can_unlock) << 5;
    table
}

impl Bank {
    /// A bank of `width` bytes made of chips of `chip_width` bytes.
    pub(super) fn new(width: u8, chip_width: u8, regions: Regions<'_>) -> Self {
        Self::with_locks(width, chip_width, regions, false)
    }

    pub(super) fn with_locks(
        width: u8,
        chip_width: u8,
        regions: Regions<'_>,
        can_unlock: bool,
    ) -> Self {
        let blocks: Vec<usize> = regions
            .iter()
            .flat_map(|&(count, bytes)| vec![bytes / usize::from(chip_width); count])
            .collect();
        let words: usize = blocks.iter().sum();
        let mask = u32::MAX >> (32 - 8 * u32::from(chip_width));
        let count = width / chip_width;
        let chips = (0..count)
            .map(|_| Chip {
                words: vec![mask; words],
                mode: Mode::Array,
                status: 0x80,
                table: table(regions, can_unlock),
                fault: Fault::None,
                locked: if can_unlock {
                    vec![true; blocks.len()]
                } else {
                    Vec::new()
                },
                blocks: blocks.clone(),
                busy_until: 0,
                unlocks: 0,
                is_emulated: false,
                mask,
            })
            .collect();
        Bank(RefCell::new(State {
            chips,
            length: (words * usize::from(width)) as u64,
            width,
            chip_width,
            duration: 0,
            now: 0,
            programs: 0,
        }))
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.borrow_mut())
    }

    /// The contents, as memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let state: Ref<'_, State> = self.0.borrow();
        let chip_width = usize::from(state.chip_width);
        (0..state.chips[0].words.len())
            .flat_map(|word| {
                state
                    .chips
                    .iter()
                    .flat_map(move |chip| chip.words[word].to_le_bytes()[..chip_width].to_vec())
                    .collect::<Vec<u8>>()
            })
            .collect()
    }

    /// Whether all chips read as memory, without errors.
    pub(super) fn is_at_rest(&self) -> bool {
        self.with(|state| {
            state
                .chips
                .iter()
                .all(|chip| chip.mode == Mode::Array && chip.status & 0x3a == 0)
        })
    }
}

impl Chip {
    /// Number and words of the block that holds `address`.
    fn block(&self, address: usize) -> (usize, std::ops::Range<usize>) {
        let mut start = 0;
        for (index, &length) in self.blocks.iter().enumerate() {
            if address < start + length {
                return (index, start..start + length);
            }
            start += length;
        }
        panic!("beyond the chip")
    }

    fn busy(&mut self, until: u64) {
        self.status |= 0x80;
        self.busy_until = until;
        self.mode = Mode::Status;
    }

    fn is_locked(&self, address: usize) -> bool {
        let (block, _) = self.block(address);
        self.locked.get(block).copied().unwrap_or(false)
    }

    fn erase(&mut self, address: usize, until: u64) {
        match self.fault {
            Fault::Erase(bits) => self.status |= bits,
            Fault::EraseStalls => return self.busy(u64::MAX),
            _ if self.is_locked(address) => self.status |= 0x22,
            _ => {
                let (_, words) = self.block(address);
                let mask = self.mask;
                self.words[words].fill(mask);
            }
        }
        self.busy(until);
    }

    fn program(&mut self, address: usize, value: u32, until: u64) {
        match self.fault {
            Fault::Program(bits) => self.status |= bits,
            Fault::ProgramStalls => return self.busy(u64::MAX),
            _ if self.is_locked(address) => self.status |= 0x12,
            _ if self.is_emulated => self.words[address] = value,
            _ => self.words[address] &= value,
        }
        self.busy(until);
    }

    fn unlock(&mut self, address: usize, now: u64) {
        self.unlocks += 1;
        let (block, _) = self.block(address);
        match self.fault {
            Fault::StaysLocked => {}
            Fault::UnlockStalls => return self.busy(u64::MAX),
            _ => {
                if let Some(locked) = self.locked.get_mut(block) {
                    *locked = false;
                }
            }
        }
        self.busy(now);
    }

    fn write(&mut self, address: usize, value: u32, now: u64, duration: u64) {
        if now < self.busy_until {
            return;
        }
        let command = (value & 0xff) as u8;
        match (self.mode, command) {
            (Mode::Program, _) => self.program(address, value, now + duration),
            (Mode::Erase, 0xd0) => {
                if !self.is_emulated {
                    self.erase(address, now + duration);
                }
                self.mode = Mode::Status;
            }
            (Mode::Lock, 0xd0) => self.unlock(address, now),
            (Mode::Erase | Mode::Lock, 0xff) if self.is_emulated => self.mode = Mode::Array,
            (Mode::Erase | Mode::Lock, _) => {
                self.status |= 0x30;
                self.mode = Mode::Status;
            }
            (_, 0x40 | 0x10) => self.mode = Mode::Program,
            (_, 0x20) => {
                if self.is_emulated {
                    self.erase(address, now);
                }
                self.mode = Mode::Erase;
            }
            (_, 0x60) => self.mode = Mode::Lock,
            (_, 0x70) => self.mode = Mode::Status,
            (_, 0x90) => self.mode = Mode::Identity,
            (_, 0x98) => self.mode = Mode::Query,
            (_, 0x50) if self.is_emulated => {
                self.status = 0;
                self.mode = Mode::Array;
            }
            (_, 0x50) => self.status = 0x80,
            (_, 0xff) => self.mode = Mode::Array,
            _ => {}
        }
    }

    fn read(&self, address: usize, now: u64) -> u32 {
        if now < self.busy_until {
            return u32::from(self.status & !0x80);
        }
        match self.mode {
            Mode::Array => self.words[address],
            Mode::Query => u32::from(self.table.get(address).copied().unwrap_or(0)),
            Mode::Identity => 0x89,
            _ => u32::from(self.status),
        }
    }
}

impl Registers for Bank {
    fn length(&self) -> u64 {
        self.with(|state| state.length)
    }

    fn width(&self) -> u8 {
        self.with(|state| state.width)
    }

    fn read(&self, offset: u64) -> u32 {
        self.with(|state| {
            assert!(offset < state.length && offset.is_multiple_of(u64::from(state.width)));
            let address = (offset / u64::from(state.width)) as usize;
            let shift = 8 * u32::from(state.chip_width);
            (0..)
                .step_by(shift as usize)
                .zip(&state.chips)
                .fold(0, |value, (lane, chip)| {
                    value | chip.read(address, state.now) << lane
                })
        })
    }

    fn write(&self, offset: u64, value: u32) {
        self.with(|state| {
            assert!(offset < state.length && offset.is_multiple_of(u64::from(state.width)));
            let address = (offset / u64::from(state.width)) as usize;
            let shift = 8 * u32::from(state.chip_width);
            state.programs += usize::from(state.chips[0].mode == Mode::Program);
            for (lane, chip) in (0..).step_by(shift as usize).zip(&mut state.chips) {
                let value = value >> lane & chip.mask;
                chip.write(address, value, state.now, state.duration);
            }
        });
    }
}

impl Clock for Bank {
    /// Each look at the clock takes a millisecond.
    fn milliseconds(&self) -> u64 {
        self.with(|state| {
            state.now += 1;
            state.now
        })
    }
}
