//! A modelled controller: registers, queues, commands, and ways to misbehave.
//! It reaches memory as a device does, by the addresses it is given.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::disk::{Disk, Outcome};
use super::memory::{load, store};
use crate::Clock;
use crate::nvme::Registers;

/// What the controller does wrong, or late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// CSTS.RDY never comes.
    NeverReady,
    /// CSTS.RDY never goes.
    NeverStops,
    /// CSTS.CFS comes instead of CSTS.RDY.
    FailsWhenEnabled,
    /// CSTS.SHST never says that it is done.
    NeverShutsDown,
    /// Everything reads as ones.
    Absent,
    /// Admin commands with this opcode are not answered.
    AdminStall(u8),
    /// Admin commands with this opcode are refused.
    AdminRefuse(u8),
    /// Admin completions carry another identifier.
    AdminWrongId,
    /// No I/O command is answered from this one on.
    Stall(usize),
    /// I/O command number n is answered with another identifier.
    WrongId(usize),
    /// I/O command number n is answered as if for another queue.
    WrongQueue(usize),
    /// I/O command number n is answered twice.
    Twice(usize),
    /// I/O command number n is answered with the phase tag of the last round.
    StalePhase(usize),
    /// Every command takes this many milliseconds.
    Slow(u64),
}

#[derive(Debug)]
pub(super) struct Model(RefCell<State>);

/// Registers and queues.
#[derive(Debug)]
pub(super) struct State {
    pub(super) capabilities: u64,
    pub(super) version: u32,
    pub(super) masked: u32,
    pub(super) configuration: u32,
    pub(super) status: u32,
    pub(super) admin_entries: u32,
    pub(super) admin_submissions: u64,
    pub(super) admin_completions: u64,
    pub(super) length: u64,
    pub(super) fault: Fault,
    pub(super) disk: Disk,
    pub(super) is_cut: bool,
    /// I/O commands fetched so far.
    pub(super) commands: usize,
    /// Writes to the tail and the head doorbell of the I/O queue.
    pub(super) doorbells: [usize; 2],
    pub(super) random: u64,
    /// When a shutdown that is under way ends.
    pub(super) shut_down_at: u64,
    now: u64,
    queues: [Pair; 2],
    /// Fetched and not executed: queue, number, entry, when it is due.
    pending: Vec<(usize, usize, [u64; 8], u64)>,
    /// Executed and not posted.
    done: VecDeque<(usize, u64, bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    submissions: u64,
    completions: u64,
    entries: u64,
    completion_entries: u64,
    fetched: u64,
    posted: u64,
    taken: u64,
    phase: bool,
}

impl Model {
    /// An untouched controller of version 1.4 with a disk: queues of up to
    /// 2048 entries, 7.5 s to get ready.
    pub(super) fn new(disk: Disk) -> Self {
        Model(RefCell::new(State {
            capabilities: 0x0000_0020_0f01_07ff,
            version: 0x0001_0400,
            masked: 0,
            configuration: 0,
            status: 0,
            admin_entries: 0,
            admin_submissions: 0,
            admin_completions: 0,
            length: 0x4000,
            fault: Fault::None,
            disk,
            is_cut: false,
            commands: 0,
            doorbells: [0; 2],
            random: 1,
            shut_down_at: u64::MAX,
            now: 0,
            queues: [Pair::default(); 2],
            pending: Vec::new(),
            done: VecDeque::new(),
        }))
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.borrow_mut())
    }

    /// The registers that are to be put back.
    pub(super) fn registers(&self) -> (u32, u32, u64, u64, u32) {
        self.with(|state| {
            (
                state.configuration,
                state.admin_entries,
                state.admin_submissions,
                state.admin_completions,
                state.masked,
            )
        })
    }
}

impl Clock for Model {
    /// Each look at the clock takes a millisecond, and the device goes on.
    fn milliseconds(&self) -> u64 {
        self.with(|state| {
            state.now += 1;
            if state.now == state.shut_down_at {
                state.status = state.status & !0b1100 | 0b1000;
            }
            state.work();
            state.now
        })
    }
}

impl Registers for Model {
    fn length(&self) -> u64 {
        self.with(|state| state.length)
    }

    fn read32(&self, offset: u64) -> u32 {
        self.with(|state| {
            assert!(offset.is_multiple_of(4) && offset < state.length);
            state.read(offset)
        })
    }

    fn write32(&self, offset: u64, value: u32) {
        self.with(|state| {
            assert!(offset.is_multiple_of(4) && offset < state.length);
            state.write(offset, value);
        });
    }

    fn cut_dma(&self) {
        self.with(|state| state.is_cut = true);
    }
}

fn half(value: u64, upper: bool) -> u32 {
    (value >> if upper { 32 } else { 0 }) as u32
}

fn put_half(value: &mut u64, upper: bool, half: u32) {
    let shift = if upper { 32 } else { 0 };
    *value = *value & !(0xffff_ffff << shift) | u64::from(half) << shift;
}

impl State {
    /// Whether the device has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.done.is_empty()
    }

    fn read(&mut self, offset: u64) -> u32 {
        if self.fault == Fault::Absent {
            return u32::MAX;
        }
        match offset {
            0x00 | 0x04 => half(self.capabilities, offset == 4),
            0x08 => self.version,
            0x0c | 0x10 => self.masked,
            0x14 => self.configuration,
            0x1c => self.status,
            0x24 => self.admin_entries,
            0x28 | 0x2c => half(self.admin_submissions, offset == 0x2c),
            0x30 | 0x34 => half(self.admin_completions, offset == 0x34),
            _ => panic!("register {offset:#x} was read"),
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        let enabled = self.configuration & 1 == 1;
        match offset {
            0x0c => self.masked |= value,
            0x10 => self.masked &= !value,
            0x14 => self.configure(value),
            0x24..=0x34 => {
                assert!(
                    !enabled,
                    "an admin queue register was changed while enabled"
                );
                match offset {
                    0x24 => self.admin_entries = value,
                    0x28 | 0x2c => put_half(&mut self.admin_submissions, offset == 0x2c, value),
                    0x30 | 0x34 => put_half(&mut self.admin_completions, offset == 0x34, value),
                    _ => panic!("register {offset:#x} was written"),
                }
            }
            0x1000.. => self.ring(offset - 0x1000, value),
            _ => panic!("register {offset:#x} was written"),
        }
    }

    fn configure(&mut self, value: u32) {
        let before = self.configuration;
        self.configuration = value;
        let shuts_down = value >> 14 & 3 != 0 && before >> 14 & 3 == 0;
        if shuts_down && self.fault != Fault::NeverShutsDown {
            self.status = self.status & !0b1100 | 0b1000;
        }
        match (before & 1, value & 1) {
            (0, 1) => self.enable(),
            (1, 0) if self.fault != Fault::NeverStops => self.reset(),
            _ => {}
        }
    }

    fn enable(&mut self) {
        assert_eq!(self.status & 1, 0, "enabled before it had stopped");
        match self.fault {
            Fault::NeverReady => {}
            Fault::FailsWhenEnabled => self.status |= 2,
            _ => self.status |= 1,
        }
        assert_eq!(self.configuration, 0x0046_0001, "entry sizes and pages");
        assert_eq!((self.admin_submissions | self.admin_completions) % 4096, 0);
        self.queues[0] = Pair {
            submissions: self.admin_submissions,
            completions: self.admin_completions,
            entries: u64::from(self.admin_entries & 0xfff) + 1,
            completion_entries: u64::from(self.admin_entries >> 16 & 0xfff) + 1,
            phase: true,
            ..Pair::default()
        };
    }

    fn reset(&mut self) {
        assert_ne!(
            self.status & 0b1100,
            0b0100,
            "disabled in the middle of a shutdown"
        );
        self.status = 0;
        self.queues = [Pair::default(); 2];
        self.pending.clear();
        self.done.clear();
    }

    fn ring(&mut self, offset: u64, value: u32) {
        let stride = 4u64 << (self.capabilities >> 32 & 0xf);
        assert_eq!(offset % stride, 0, "not a doorbell");
        let queue = (offset / stride / 2) as usize;
        let is_head = offset / stride % 2 == 1;
        if self.status & 1 == 0 {
            return;
        }
        if queue == 1 {
            self.doorbells[usize::from(is_head)] += 1;
        }
        let value = u64::from(value);
        let pair = &mut self.queues[queue];
        assert!(
            value
                < if is_head {
                    pair.completion_entries
                } else {
                    pair.entries
                }
        );
        if is_head {
            pair.taken = value;
        } else {
            self.fetch(queue, value);
        }
    }

    fn fetch(&mut self, queue: usize, tail: u64) {
        while self.queues[queue].fetched != tail {
            let pair = &mut self.queues[queue];
            let at = pair.submissions + pair.fetched * 64;
            pair.fetched = (pair.fetched + 1) % pair.entries;
            let entry = std::array::from_fn(|word| load(at + 8 * word as u64));
            let number = self.commands;
            self.commands += queue;
            let delay = match self.fault {
                Fault::Slow(delay) => delay,
                _ => 0,
            };
            self.pending.push((queue, number, entry, self.now + delay));
        }
    }

    /// Executes some of what is pending, in any order.
    fn work(&mut self) {
        if self.fault == Fault::Absent || self.is_cut || self.status & 1 == 0 {
            return;
        }
        for _ in 0..=self.roll() % 4 {
            let ready: Vec<usize> = (0..self.pending.len())
                .filter(|&index| self.pending[index].3 <= self.now)
                .collect();
            if ready.is_empty() {
                break;
            }
            let pick = ready[self.roll() as usize % ready.len()];
            let (queue, number, entry, _) = self.pending.remove(pick);
            self.execute(queue, number, &entry);
        }
        self.post();
    }

    fn execute(&mut self, queue: usize, number: usize, entry: &[u64; 8]) {
        let opcode = entry[0] as u8;
        let outcome = match (queue, self.fault) {
            (0, Fault::AdminStall(stalled)) if stalled == opcode => return,
            (0, Fault::AdminRefuse(refused)) if refused == opcode => Err(0x002),
            (1, Fault::Stall(first)) if number >= first => return,
            (0, _) => self.administer(opcode, entry),
            _ => self.disk.execute(opcode, entry),
        };
        let status = outcome.err().unwrap_or(0);
        let mut id = entry[0] >> 16 & 0xffff;
        let mut from = queue as u64;
        match self.fault {
            Fault::AdminWrongId if queue == 0 => id ^= 1,
            Fault::WrongId(wrong) if queue == 1 && wrong == number => id ^= 0x40,
            Fault::WrongQueue(wrong) if queue == 1 && wrong == number => from = 2,
            _ => {}
        }
        let word = from << 16 | id << 32 | u64::from(status) << 49;
        let stale = queue == 1 && self.fault == Fault::StalePhase(number);
        self.done.push_back((queue, word, stale));
        if queue == 1 && self.fault == Fault::Twice(number) {
            self.done.push_back((queue, word, false));
        }
    }

    /// Posts completions where the queue has room.
    fn post(&mut self) {
        while let Some(&(queue, word, stale)) = self.done.front() {
            let pair = &mut self.queues[queue];
            let next = (pair.posted + 1) % pair.completion_entries;
            if next == pair.taken {
                return;
            }
            let phase = u64::from(pair.phase != stale);
            store(pair.completions + 16 * pair.posted + 8, word | phase << 48);
            pair.posted = next;
            pair.phase ^= next == 0;
            self.done.pop_front();
        }
    }

    fn administer(&mut self, opcode: u8, entry: &[u64; 8]) -> Outcome {
        let (data, low, high) = (entry[3], entry[5], entry[5] >> 32);
        let entries = (low >> 16 & 0xffff) + 1;
        let most = (self.capabilities & 0xffff) + 1;
        match opcode {
            0x06 => self.disk.identify(data, low as u8, (entry[0] >> 32) as u32),
            // Number of queues: this controller knows it anyhow.
            0x09 => Err(0x00d),
            0x05 | 0x01 => {
                assert_eq!((low & 0xffff, data % 4096, high & 1), (1, 0, 1));
                assert!(
                    entries <= most,
                    "{entries} entries where {most} are the most"
                );
                let pair = &mut self.queues[1];
                if opcode == 0x05 {
                    assert_eq!(high & 2, 0, "interrupts are on");
                    pair.completions = data;
                    pair.completion_entries = entries;
                    pair.phase = true;
                } else {
                    assert_eq!(high >> 16, 1, "another completion queue");
                    pair.submissions = data;
                    pair.entries = entries;
                }
                Ok(())
            }
            _ => Err(0x001),
        }
    }

    fn roll(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
