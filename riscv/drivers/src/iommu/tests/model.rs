//! An IOMMU by its specification, and the memory that it reads.
//!
//! It caches all that it may cache, until a command drops it. It executes commands only when a fence completes them. Writes to control registers take
//! effect after some reads. An access that the specification leaves undefined is an error of the
//! driver.
#![allow(clippy::cast_possible_truncation, reason = "fields are cut from words")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::translation::{self, Leaf};
use crate::Registers;
use crate::iommu::TableMemory;
use crate::iommu::register::*;

pub(super) const PAGE: u64 = 4096;

/// Causes of faults (3.2).
pub(super) const OFF: u16 = 256;
pub(super) const NOT_VALID: u16 = 258;
pub(super) const MISCONFIGURED: u16 = 259;
pub(super) const DISALLOWED: u16 = 260;
pub(super) const READ_FAULT: u16 = 13;
pub(super) const WRITE_FAULT: u16 = 15;

/// A device's access: its ID, the address, whether it writes.
pub(super) type Request = (u32, u64, bool);

/// An IOMMU, its registers and caches, and memory.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) capabilities: u64,
    pub(super) fctl: u32,
    /// The most levels of a directory.
    pub(super) max_levels: u32,
    /// It sees changes of the directory only at a command about it; otherwise at once.
    pub(super) is_late: bool,
    /// The number of reads until a write takes effect.
    pub(super) delay: u32,
    /// It executes no command.
    pub(super) is_stuck: Cell<bool>,
    /// It refuses each command.
    pub(super) is_picky: Cell<bool>,
    /// The number of register reads.
    pub(super) reads: Cell<u64>,
    pub(super) state: RefCell<State>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) ram: BTreeMap<u64, u64>,
    /// Memory at the last command about the directory.
    directory: BTreeMap<u64, u64>,
    pub(super) ddtp: u64,
    ddtp_delay: u32,
    command_base: u64,
    command_head: u32,
    command_tail: u32,
    fault_base: u64,
    fault_head: u32,
    fault_tail: u32,
    pub(super) command_queue: Queue,
    pub(super) fault_queue: Queue,
    pub(super) page_queue: Queue,
    /// Invalidations that no fence has completed.
    waiting: Vec<[u64; 2]>,
    contexts: BTreeMap<u32, Vec<u64>>,
    /// Non-leaf entries, by address.
    nodes: BTreeMap<u64, u64>,
    /// By device and page, each with its address space. They outlast contexts (6.3.1).
    translations: BTreeMap<(u32, u64), (u64, Leaf)>,
    /// By address space and page.
    shared: BTreeMap<(u64, u64), Leaf>,
    /// The modes that DDTP had, each once in a row.
    pub(super) modes: Vec<u64>,
    /// Requests that devices make after each step of the driver.
    pub(super) probes: Vec<Request>,
    /// The successful ones.
    pub(super) reached: BTreeSet<Request>,
    /// Dropped records.
    pub(super) lost: u32,
}

/// A queue's control register.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    enable: u32,
    /// Reads until "on" follows "enable".
    delay: u32,
    is_on: bool,
    pub(super) errors: u32,
}

impl Queue {
    /// A queue that an earlier stage left on.
    pub(super) fn left_on() -> Self {
        Queue {
            enable: 1,
            is_on: true,
            ..Queue::default()
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    fn read(&mut self) -> u32 {
        let is_busy = self.delay > 0;
        self.delay = self.delay.saturating_sub(1);
        if !is_busy {
            self.is_on = self.enable != 0;
        }
        let on = if self.is_on { queue::ON } else { 0 };
        self.enable | on | self.errors | if is_busy { queue::BUSY } else { 0 }
    }

    /// Returns whether the write turns the queue on.
    fn write(&mut self, value: u32, delay: u32) -> bool {
        assert_eq!(self.delay, 0, "written while busy");
        self.errors &= !value;
        let is_start = self.enable == 0 && value & 1 != 0;
        if self.enable != value & 1 {
            self.delay = delay;
        }
        self.enable = value & 1;
        if is_start {
            self.errors = 0;
        }
        is_start
    }
}

impl Model {
    /// An IOMMU after a reset, with Sv39 and Sv48.
    pub(super) fn new(has_wide_contexts: bool) -> Self {
        let wide = if has_wide_contexts {
            capabilities::MSI_FLAT
        } else {
            0
        };
        Model {
            capabilities: 0x10 | capabilities::SV39 | capabilities::SV48 | wide | 56 << 32,
            fctl: 0,
            max_levels: 3,
            is_late: true,
            delay: 3,
            is_stuck: Cell::new(false),
            is_picky: Cell::new(false),
            reads: Cell::new(0),
            state: RefCell::default(),
        }
    }

    /// A device's access. Returns the physical address, or the cause of its fault.
    pub(super) fn access(&self, request: Request) -> Result<u64, u16> {
        let mut state = self.state.borrow_mut();
        let outcome = self.translate(&mut state, request);
        if let Err(cause) = outcome {
            state.record(request, cause);
        }
        outcome
    }

    fn translate(&self, state: &mut State, (device, address, write): Request) -> Result<u64, u16> {
        let levels = match state.ddtp & ddtp::MODE {
            ddtp::OFF => return Err(OFF),
            ddtp::BARE => return Ok(address),
            mode => mode as u32 - 1,
        };
        let key = (device, address / PAGE);
        let cached = state.translations.get(&key).map(|(_, leaf)| *leaf);
        let leaf = match cached {
            Some(leaf) => leaf,
            None => {
                let context = self.context(state, device, levels)?;
                self.check(&context)?;
                if context[3] >> 60 == 0 {
                    return Ok(address);
                }
                let space = context[2] >> 12 & 0xf_ffff;
                let word = |place| state.ram.get(&place).copied().unwrap_or(0);
                let cause = if write { WRITE_FAULT } else { READ_FAULT };
                let cached = state.shared.get(&(space, address / PAGE)).copied();
                let leaf = cached.or_else(|| translation::walk(context[3], address, word));
                let leaf = leaf.ok_or(cause)?;
                state.shared.insert((space, address / PAGE), leaf);
                state.translations.insert(key, (space, leaf));
                leaf
            }
        };
        match leaf.is_writable || !write {
            true => Ok(leaf.page * PAGE + address % PAGE),
            false => Err(WRITE_FAULT),
        }
    }

    fn context_words(&self) -> u64 {
        match self.capabilities & capabilities::MSI_FLAT {
            0 => 4,
            _ => 8,
        }
    }

    /// Finds the device's context (2.3.1), in the cache first.
    fn context(&self, state: &mut State, device: u32, levels: u32) -> Result<Vec<u64>, u16> {
        let leaf_bits = if self.context_words() == 8 { 6 } else { 7 };
        if device >> (leaf_bits + 9 * (levels - 1)).min(24) != 0 {
            return Err(DISALLOWED);
        }
        if let Some(cached) = state.contexts.get(&device) {
            return Ok(cached.clone());
        }
        let mut page = state.ddtp >> 10 & ((1 << 44) - 1);
        for level in (1..levels).rev() {
            let index = device >> (leaf_bits + 9 * (level - 1)) & 0x1ff;
            let place = page * PAGE + u64::from(index) * 8;
            let entry = (state.nodes.get(&place).copied()).unwrap_or_else(|| state.entry(place));
            if entry & 1 == 0 {
                return Err(NOT_VALID);
            }
            if entry & !(1 | ((1 << 44) - 1) << 10) != 0 {
                return Err(MISCONFIGURED);
            }
            state.nodes.insert(place, entry);
            page = entry >> 10;
        }
        let index = u64::from(device & ((1 << leaf_bits) - 1));
        let place = page * PAGE + index * self.context_words() * 8;
        let words: Vec<u64> = (0..self.context_words())
            .map(|word| state.entry(place + 8 * word))
            .collect();
        if words[0] & 1 == 0 {
            return Err(NOT_VALID);
        }
        state.contexts.insert(device, words.clone());
        Ok(words)
    }

    /// The checks of 2.1.4, for the features that the driver uses. All others must be off.
    fn check(&self, context: &[u64]) -> Result<(), u16> {
        let first_stage = context[3];
        let has_mode = match first_stage >> 60 {
            0 => first_stage == 0,
            8 => self.capabilities & capabilities::SV39 != 0,
            9 => self.capabilities & capabilities::SV48 != 0,
            _ => false,
        };
        let is_good = context[0] == 1
            && context[1] == 0
            && context[2] & !(0xf_ffff << 12) == 0
            && has_mode
            && first_stage >> 44 & 0xffff == 0
            && context[4..].iter().all(|word| *word == 0);
        if is_good { Ok(()) } else { Err(MISCONFIGURED) }
    }

    /// Fetches commands up to the tail, unless an error stopped the queue.
    fn fetch(&self, state: &mut State) {
        let entries = 2u32 << (state.command_base & 0x1f);
        let base = state.command_base >> 10 << 12;
        while state.command_queue.is_on
            && state.command_queue.errors == 0
            && state.command_head != state.command_tail
        {
            if self.is_picky.get() {
                state.command_queue.errors |= cqcsr::ILLEGAL;
                return;
            }
            let place = base + 16 * u64::from(state.command_head);
            let command = [state.word(place), state.word(place + 8)];
            self.execute(state, command);
            state.command_head = (state.command_head + 1) % entries;
        }
    }

    fn execute(&self, state: &mut State, command: [u64; 2]) {
        match command[0] & 0x3ff {
            // IOTINVAL.VMA without address; IODIR.INVAL_DDT.
            1 => assert_eq!(command[0] & !(0x1_ffff_f000 | 1), 0, "a reserved bit"),
            3 if command[0] >> 33 & 1 != 0 => {
                let levels = (state.ddtp & ddtp::MODE).saturating_sub(1) as u32;
                let leaf_bits = if self.context_words() == 8 { 6 } else { 7 };
                let bits = levels
                    .checked_sub(1)
                    .map_or(0, |upper| leaf_bits + 9 * upper);
                assert_eq!(command[0] >> 40 >> bits.min(24), 0, "wider than the mode");
                assert_eq!(command[0] & 0xfd_ffff_fc00, 0, "a reserved bit");
            }
            3 => assert_eq!(command[0], 3),
            // IOFENCE.C for earlier reads and writes.
            2 => {
                assert_eq!(command[0], 2 | 3 << 12);
                for waiting in std::mem::take(&mut state.waiting) {
                    state.invalidate(waiting[0]);
                }
            }
            other => panic!("command {other:#x}"),
        }
        assert_eq!(command[1], 0);
        if command[0] & 0x7f != 2 {
            state.waiting.push(command);
        }
    }

    /// Devices try their requests.
    fn probe(&self) {
        let mut state = self.state.borrow_mut();
        for probe in state.probes.clone() {
            if self.translate(&mut state, probe).is_ok() {
                state.reached.insert(probe);
            }
        }
    }

    fn write_ddtp(&self, state: &mut State, value: u64) {
        assert_eq!(state.ddtp_delay, 0, "written while busy");
        let (before, mode) = (state.ddtp & ddtp::MODE, value & ddtp::MODE);
        match mode {
            ddtp::OFF => assert_eq!(value >> 10, state.ddtp >> 10, "5.5: keep the page number"),
            ddtp::BARE => assert_eq!(before, ddtp::OFF, "5.5"),
            _ => assert!(before <= ddtp::BARE, "5.5: levels change through off"),
        }
        let is_supported = mode <= u64::from(self.max_levels) + 1;
        let mode = if is_supported { mode } else { before };
        state.ddtp = value & !0x3ff | mode;
        state.ddtp_delay = self.delay;
        if state.modes.last() != Some(&mode) {
            state.modes.push(mode);
        }
    }
}

impl State {
    fn word(&self, address: u64) -> u64 {
        assert!(address.is_multiple_of(8));
        self.ram.get(&address).copied().unwrap_or(0)
    }

    /// The IOMMU sees the directory in memory.
    pub(super) fn show_directory(&mut self) {
        self.directory = self.ram.clone();
    }

    /// A word of the directory, as the IOMMU sees it.
    fn entry(&self, address: u64) -> u64 {
        self.directory.get(&address).copied().unwrap_or(0)
    }

    fn invalidate(&mut self, command: u64) {
        if command & 0x7f == 3 {
            self.show_directory();
            if command >> 33 & 1 != 0 {
                self.contexts.remove(&((command >> 40) as u32));
            } else {
                self.contexts.clear();
                self.nodes.clear();
            }
        } else if command >> 32 & 1 != 0 {
            let space = command >> 12 & 0xf_ffff;
            self.translations.retain(|_, (its, _)| *its != space);
            self.shared.retain(|(its, _), _| *its != space);
        } else {
            self.shared.clear();
            self.translations.clear();
        }
    }

    /// Writes a fault record (3.2).
    fn record(&mut self, (device, address, write): Request, cause: u16) {
        if !self.fault_queue.is_on {
            return;
        }
        let entries = 2u32 << (self.fault_base & 0x1f);
        let next = (self.fault_tail + 1) % entries;
        let is_full = next == self.fault_head;
        if is_full {
            self.fault_queue.errors |= fqcsr::OVERFLOW;
        }
        if self.fault_queue.errors != 0 {
            self.lost += 1;
            return;
        }
        let kind = if write { 3 } else { 2 };
        let place = (self.fault_base >> 10 << 12) + 32 * u64::from(self.fault_tail);
        let first = u64::from(cause) | kind << 34 | u64::from(device) << 40;
        for (word, value) in (0..).zip([first, 0xdead << 32, address, 0]) {
            self.ram.insert(place + 8 * word, value);
        }
        self.fault_tail = next;
    }
}

impl Registers<u64> for Model {
    fn read(&self, offset: u64) -> u64 {
        self.reads.set(self.reads.get() + 1);
        let mut state = self.state.borrow_mut();
        match offset {
            CAPABILITIES => self.capabilities,
            DDTP => {
                let busy = if state.ddtp_delay > 0 { ddtp::BUSY } else { 0 };
                state.ddtp_delay = state.ddtp_delay.saturating_sub(1);
                state.ddtp | busy
            }
            _ => panic!("{offset:#x} was read"),
        }
    }

    fn write(&self, offset: u64, value: u64) {
        let mut state = self.state.borrow_mut();
        match offset {
            DDTP => self.write_ddtp(&mut state, value),
            CQB => {
                assert!(!state.command_queue.is_on);
                state.command_base = value;
                state.command_tail = 1;
            }
            FQB => {
                assert!(!state.fault_queue.is_on);
                state.fault_base = value;
                state.fault_head = 1;
            }
            _ => panic!("{offset:#x} was written"),
        }
        drop(state);
        self.probe();
    }
}

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        self.reads.set(self.reads.get() + 1);
        let mut state = self.state.borrow_mut();
        match offset {
            FCTL => self.fctl,
            CQH => {
                // The tail was read some time ago: the IOMMU is late by one look.
                let seen = state.command_head;
                if !self.is_stuck.get() {
                    self.fetch(&mut state);
                }
                seen
            }
            FQT => state.fault_tail,
            CQCSR => state.command_queue.read(),
            FQCSR => state.fault_queue.read(),
            PQCSR => {
                assert_ne!(self.capabilities & capabilities::ATS, 0);
                state.page_queue.read()
            }
            _ => panic!("{offset:#x} was read"),
        }
    }

    fn write(&self, offset: u64, value: u32) {
        let mut state = self.state.borrow_mut();
        match offset {
            CQT => state.command_tail = value,
            FQH => state.fault_head = value,
            CQCSR => {
                if state.command_queue.write(value, self.delay) {
                    state.command_head = 0;
                }
            }
            FQCSR => {
                if state.fault_queue.write(value, self.delay) {
                    state.fault_tail = 0;
                }
            }
            PQCSR => {
                assert_ne!(self.capabilities & capabilities::ATS, 0);
                state.page_queue.write(value, self.delay);
            }
            _ => panic!("{offset:#x} was written"),
        }
        drop(state);
        self.probe();
    }
}

impl TableMemory for Model {
    fn read(&self, address: u64) -> u64 {
        self.state.borrow().word(address)
    }

    fn write(&self, address: u64, value: u64) {
        assert!(address.is_multiple_of(8));
        let mut state = self.state.borrow_mut();
        state.ram.insert(address, value);
        if !self.is_late {
            state.directory.insert(address, value);
        }
        drop(state);
        self.probe();
    }
}
