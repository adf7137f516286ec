//! A modelled controller: registers, queues, commands, and ways to misbehave.
//! It reaches memory as a device does, by the addresses it is given.

use std::cell::RefCell;
use std::collections::VecDeque;

use poorwill_clock::Clock;

use super::disk::{Disk, Outcome};
use super::memory::Exposed;
use crate::nvme::Registers;
use crate::nvme::fake::{Command, FakeRegisters, QueuePair, Written, identifier};

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
    pub(super) registers: FakeRegisters,
    pub(super) status: u32,
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
    /// The long waits that the driver told, with their limits.
    pub(super) told: Vec<(String, u64)>,
    now: u64,
    queues: [QueuePair; 2],
    /// Completions that the driver has seen, of each queue.
    taken: [u64; 2],
    /// Fetched and not executed: queue, number, entry, when it is due.
    pending: Vec<(usize, usize, Command, u64)>,
    /// Executed and not posted.
    done: VecDeque<(usize, u64, bool)>,
}

impl Model {
    /// An untouched controller with a disk.
    pub(super) fn new(disk: Disk) -> Self {
        Model(RefCell::new(State {
            registers: FakeRegisters::NEW,
            status: 0,
            length: 0x4000,
            fault: Fault::None,
            disk,
            is_cut: false,
            commands: 0,
            doorbells: [0; 2],
            random: 1,
            shut_down_at: u64::MAX,
            told: Vec::new(),
            now: 0,
            queues: [QueuePair::default(); 2],
            taken: [0; 2],
            pending: Vec::new(),
            done: VecDeque::new(),
        }))
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.borrow_mut())
    }

    /// The registers that are to be put back.
    pub(super) fn registers(&self) -> (u32, [u32; 5], u32) {
        self.with(|state| {
            let FakeRegisters {
                configuration,
                admin,
                masked,
                ..
            } = state.registers;
            (configuration, admin, masked)
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

    fn waits(&self, wait: &dyn std::fmt::Display, limit: u64) {
        self.with(|state| state.told.push((wait.to_string(), limit)));
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

impl State {
    /// Whether the device has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.done.is_empty()
    }

    fn read(&self, offset: u64) -> u32 {
        match self.fault {
            Fault::Absent => u32::MAX,
            _ => self.registers.read(offset, self.status),
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        match self.registers.write(offset, value) {
            Written::Mask => {}
            Written::Admin => assert_eq!(
                self.registers.configuration & 1,
                0,
                "an admin queue register was changed while enabled"
            ),
            Written::Configuration(before) => self.configure(before, value),
            Written::Tail(queue) => self.ring(queue, false, value),
            Written::Head(queue) => self.ring(queue, true, value),
        }
    }

    fn configure(&mut self, before: u32, value: u32) {
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
        assert_eq!(
            self.registers.configuration, 0x0046_0001,
            "entry sizes and pages"
        );
        let [submissions, completions] = self.registers.admin_addresses();
        assert_eq!((submissions | completions) % 4096, 0);
        self.queues[0] = self.registers.admin_queues();
    }

    fn reset(&mut self) {
        assert_ne!(
            self.status & 0b1100,
            0b0100,
            "disabled in the middle of a shutdown"
        );
        self.status = 0;
        self.queues = [QueuePair::default(); 2];
        self.taken = [0; 2];
        self.pending.clear();
        self.done.clear();
    }

    fn ring(&mut self, queue: usize, is_head: bool, value: u32) {
        if self.status & 1 == 0 {
            return;
        }
        if queue == 1 {
            self.doorbells[usize::from(is_head)] += 1;
        }
        let value = u64::from(value);
        if is_head {
            assert!(value < self.queues[queue].entries[1]);
            self.taken[queue] = value;
            return;
        }
        while let Some(entry) = self.queues[queue].fetch(&Exposed, value) {
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

    fn execute(&mut self, queue: usize, number: usize, entry: &Command) {
        let opcode = entry[0] as u8;
        let outcome = match (queue, self.fault) {
            (0, Fault::AdminStall(stalled)) if stalled == opcode => return,
            (0, Fault::AdminRefuse(refused)) if refused == opcode => Err(0x002),
            (1, Fault::Stall(first)) if number >= first => return,
            (0, _) => self.administer(opcode, entry),
            _ => self.disk.execute(opcode, entry),
        };
        let status = outcome.err().unwrap_or(0);
        let mut id = identifier(entry);
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
            if pair.next_tail() == self.taken[queue] {
                return;
            }
            pair.put(&Exposed, word, !stale);
            pair.advance();
            self.done.pop_front();
        }
    }

    fn administer(&mut self, opcode: u8, entry: &Command) -> Outcome {
        let (data, low, high) = (entry[3], entry[5], entry[5] >> 32);
        match opcode {
            0x06 => self.disk.identify(data, low as u8, (entry[0] >> 32) as u32),
            // Number of queues: this controller knows it anyhow.
            0x09 => Err(0x00d),
            0x05 | 0x01 => {
                assert_eq!((low & 0xffff, data % 4096, high & 1), (1, 0, 1));
                if opcode == 0x05 {
                    assert_eq!(high & 2, 0, "interrupts are on");
                } else {
                    assert_eq!(high >> 16, 1, "another completion queue");
                }
                self.queues[1].create(entry, self.registers.capabilities);
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
