//! A modelled controller that answers in any order, and ways to misbehave.
//! It reaches memory as a device does, by the addresses it is given.

use std::fmt::Display;

use super::memory::Exposed;
use crate::nvme::fake::{Answers, Attached, Core, Disk, Hooks, Pending};

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

pub(super) type Model = Attached<Tester>;

#[derive(Debug)]
pub(super) struct Tester {
    pub(super) fault: Fault,
    pub(super) disk: Disk,
    /// Writes to the tail and the head doorbell of the I/O queue.
    pub(super) doorbells: [usize; 2],
    pub(super) random: u64,
    /// When a shutdown that is under way ends.
    pub(super) shut_down_at: u64,
    /// The long waits that the driver told, with their limits.
    pub(super) told: Vec<(String, u64)>,
    /// Completions that the driver has seen, of each queue.
    taken: [u64; 2],
}

/// An untouched controller with a disk.
pub(super) fn with_disk(disk: Disk) -> Model {
    let tester = Tester {
        fault: Fault::None,
        disk,
        doorbells: [0; 2],
        random: 1,
        shut_down_at: u64::MAX,
        told: Vec::new(),
        taken: [0; 2],
    };
    Model::new(Exposed, Core::NEW, tester)
}

impl Tester {
    fn roll(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Whether a command is answered now: the queue of completions must have room.
    fn is_due(&self, core: &Core, pending: &Pending) -> bool {
        let is_due = match self.fault {
            Fault::Slow(delay) => pending.since + delay <= core.now,
            Fault::AdminStall(opcode) => pending.queue > 0 || pending.opcode() != opcode,
            Fault::Stall(first) => pending.queue == 0 || pending.number < first,
            _ => true,
        };
        is_due && core.queues[&pending.queue].next_tail() != self.taken[pending.queue]
    }
}

impl Hooks for Tester {
    type Memory = Exposed;

    fn enable(&mut self, core: &mut Core) {
        assert_eq!(core.status & 1, 0, "enabled before it had stopped");
        match self.fault {
            Fault::NeverReady => {}
            Fault::FailsWhenEnabled => core.status |= 2,
            _ => core.status |= 1,
        }
        let registers = &core.registers;
        assert_eq!(
            registers.configuration, 0x0046_0001,
            "entry sizes and pages"
        );
        let [submissions, completions] = registers.admin_addresses();
        assert_eq!((submissions | completions) % 4096, 0);
    }

    fn disable(&mut self, core: &mut Core) {
        if self.fault != Fault::NeverStops {
            let shutdown = core.status & 0b1100;
            assert_ne!(shutdown, 0b0100, "disabled in the middle of a shutdown");
            self.taken = [0; 2];
            core.reset();
        }
    }

    fn shut_down(&mut self, core: &mut Core, _: u32) {
        if self.fault != Fault::NeverShutsDown {
            core.status = core.status & !0b1100 | 0b1000;
        }
    }

    fn tail(&mut self, _: &Exposed, queue: usize, tail: u64) -> u64 {
        self.doorbells[0] += queue;
        tail
    }

    fn head(&mut self, core: &Core, queue: usize, head: u64) {
        if core.status & 1 != 0 {
            self.doorbells[1] += queue;
            assert!(head < core.queues[&queue].entries[1]);
            self.taken[queue] = head;
        }
    }

    /// Each look at the clock takes a millisecond, and the device goes on.
    fn look(&mut self, core: &mut Core) {
        core.now += 1;
        if core.now == self.shut_down_at {
            core.status = core.status & !0b1100 | 0b1000;
        }
    }

    fn waits(&mut self, wait: &dyn Display, limit: u64) {
        self.told.push((wait.to_string(), limit));
    }

    fn turns(&mut self, _: &mut Core, _: &Exposed) -> u64 {
        1 + self.roll() % 4
    }

    /// Any of those that are due.
    fn pick(&mut self, core: &Core) -> Option<usize> {
        let places = 0..core.pending.len();
        let due: Vec<_> = places
            .filter(|place| self.is_due(core, &core.pending[*place]))
            .collect();
        (!due.is_empty()).then(|| due[self.roll() as usize % due.len()])
    }

    fn answer(&mut self, core: &mut Core, memory: &Exposed, of: &Pending) -> Answers {
        let (queue, number, command) = (of.queue, of.number, &of.command);
        let outcome = match (queue, self.fault) {
            (0, Fault::AdminRefuse(refused)) if refused == of.opcode() => Err(0x002),
            (0, _) => core.administer(memory, command, |what, id| self.disk.identify(what, id)),
            _ => self.disk.execute(memory, command),
        };
        let word = of.word(outcome.err().unwrap_or(0));
        let is_io = |wanted: usize| queue == 1 && wanted == number;
        match self.fault {
            Fault::AdminWrongId if queue == 0 => vec![(word ^ 1 << 32, true)],
            Fault::WrongId(wrong) if is_io(wrong) => vec![(word ^ 0x40 << 32, true)],
            Fault::WrongQueue(wrong) if is_io(wrong) => vec![(word ^ 3 << 16, true)],
            Fault::Twice(wrong) if is_io(wrong) => vec![(word, true); 2],
            Fault::StalePhase(wrong) if is_io(wrong) => vec![(word, false)],
            _ => vec![(word, true)],
        }
    }
}
