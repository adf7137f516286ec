//! The parts of modelled controllers: registers, and queues in memory. A model decides when and how
//! it answers, so each fault is the model's own.

use super::register::{ACQ, AQA, ASQ, CAP, CC, CSTS, DOORBELLS, INTMC, INTMS, VS};

/// Memory as a device accesses it: aligned 64-bit words at addresses.
pub trait DeviceMemory {
    /// The word at `address`.
    fn load(&self, address: u64) -> u64;

    /// Changes the word at `address`.
    fn store(&self, address: u64, value: u64);
}

/// A command, as words.
pub type Command = [u64; 8];

/// A command's identifier.
#[must_use]
pub fn identifier(command: &Command) -> u64 {
    command[0] >> 16 & 0xffff
}

/// The registers that hold their last value. The status is the model's.
#[derive(Clone, Debug)]
pub struct FakeRegisters {
    /// CAP.
    pub capabilities: u64,
    /// VS.
    pub version: u32,
    /// The masked interrupts.
    pub masked: u32,
    /// CC.
    pub configuration: u32,
    /// AQA, ASQ and ACQ, as dwords.
    pub admin: [u32; 5],
}

/// The meaning of a write to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The interrupt mask.
    Mask,
    /// AQA, ASQ or ACQ.
    Admin,
    /// CC, with the value before.
    Configuration(u32),
    /// The tail doorbell of a queue.
    Tail(usize),
    /// The head doorbell of a queue.
    Head(usize),
}

impl FakeRegisters {
    /// An untouched controller of version 1.4: queues of up to 2048 entries, 7.5 s to get ready.
    pub const NEW: FakeRegisters = FakeRegisters {
        capabilities: 0x0000_0020_0f01_07ff,
        version: 0x0001_0400,
        masked: 0,
        configuration: 0,
        admin: [0; 5],
    };

    /// Reads a register; `status` is CSTS.
    ///
    /// # Panics
    ///
    /// When the driver needs no such register.
    #[must_use]
    pub fn read(&self, offset: u64, status: u32) -> u32 {
        match offset {
            CAP => self.capabilities as u32,
            0x04 => (self.capabilities >> 32) as u32,
            VS => self.version,
            INTMS | INTMC => self.masked,
            CC => self.configuration,
            CSTS => status,
            AQA..=0x34 => self.admin[((offset - AQA) / 4) as usize],
            _ => panic!("register {offset:#x} was read"),
        }
    }

    /// Writes a register.
    ///
    /// # Panics
    ///
    /// When the driver must not write to it.
    pub fn write(&mut self, offset: u64, value: u32) -> Written {
        match offset {
            INTMS => self.masked |= value,
            INTMC => self.masked &= !value,
            CC => {
                return Written::Configuration(core::mem::replace(&mut self.configuration, value));
            }
            AQA..=0x34 => {
                self.admin[((offset - AQA) / 4) as usize] = value;
                return Written::Admin;
            }
            DOORBELLS.. => return self.doorbell(offset - DOORBELLS),
            _ => panic!("register {offset:#x} was written"),
        }
        Written::Mask
    }

    fn doorbell(&self, offset: u64) -> Written {
        let stride = 4u64 << (self.capabilities >> 32 & 0xf);
        assert!(offset.is_multiple_of(stride), "not a doorbell");
        let queue = (offset / stride / 2) as usize;
        match offset / stride % 2 {
            0 => Written::Tail(queue),
            _ => Written::Head(queue),
        }
    }

    /// The addresses of the admin queues: ASQ and ACQ.
    #[must_use]
    pub fn admin_addresses(&self) -> [u64; 2] {
        let at = |offset| (offset - AQA) as usize / 4;
        [at(ASQ), at(ACQ)].map(|at| u64::from(self.admin[at]) | u64::from(self.admin[at + 1]) << 32)
    }

    /// The admin queues.
    #[must_use]
    pub fn admin_queues(&self) -> QueuePair {
        let sizes = u64::from(self.admin[0]);
        let entries = [sizes & 0xfff, sizes >> 16 & 0xfff].map(|last| last + 1);
        QueuePair::new(self.admin_addresses(), entries)
    }
}

/// A submission queue and its completion queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueuePair {
    /// The queues' addresses: submissions, completions. 0: there is no such queue.
    pub addresses: [u64; 2],
    /// The queues' numbers of entries.
    pub entries: [u64; 2],
    /// The index of the next command.
    pub head: u64,
    /// The index of the next completion.
    pub tail: u64,
    is_old_phase: bool,
}

impl QueuePair {
    /// Empty queues.
    #[must_use]
    pub fn new(addresses: [u64; 2], entries: [u64; 2]) -> Self {
        QueuePair {
            addresses,
            entries,
            ..QueuePair::default()
        }
    }

    /// Whether there are both queues.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.addresses.contains(&0)
    }

    /// Takes the next command before `tail`.
    ///
    /// # Panics
    ///
    /// When `tail` is past the queue's end.
    pub fn fetch(&mut self, memory: &impl DeviceMemory, tail: u64) -> Option<Command> {
        assert!(tail < self.entries[0], "a tail beyond its queue");
        if self.head == tail {
            return None;
        }
        let at = self.addresses[0] + self.head * 64;
        self.head = (self.head + 1) % self.entries[0];
        Some(core::array::from_fn(|word| {
            memory.load(at + 8 * word as u64)
        }))
    }

    /// The index of the completion after the next.
    #[must_use]
    pub fn next_tail(&self) -> u64 {
        (self.tail + 1) % self.entries[1]
    }

    /// Writes the second word of the next completion, with the right phase tag or the wrong one.
    pub fn put(&self, memory: &impl DeviceMemory, word: u64, has_right_phase: bool) {
        let phase = u64::from(self.is_old_phase != has_right_phase);
        let at = self.addresses[1] + 16 * self.tail + 8;
        memory.store(at, word & !(1 << 48) | phase << 48);
    }

    /// Advances to the next completion.
    pub fn advance(&mut self) {
        self.tail = self.next_tail();
        self.is_old_phase ^= self.tail == 0;
    }

    /// Creates the queue of an admin command (opcodes 1 and 5).
    ///
    /// # Panics
    ///
    /// When it is longer than CAP allows.
    pub fn create(&mut self, command: &Command, capabilities: u64) {
        let entries = (command[5] >> 16 & 0xffff) + 1;
        let most = (capabilities & 0xffff) + 1;
        assert!(
            entries <= most,
            "{entries} entries, and {most} are the most"
        );
        let which = usize::from(command[0] as u8 == 5);
        (self.addresses[which], self.entries[which]) = (command[3], entries);
    }
}
