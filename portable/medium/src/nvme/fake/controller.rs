use std::collections::BTreeMap;
use std::vec::Vec;

use super::disk::Outcome;
use super::memory::{DeviceMemory, store_bytes};
use super::queue::{Command, QueuePair, identifier};
use super::registers::FakeRegisters;
use crate::nvme::register::{
    AQA, CC, CSTS, CSTS_RDY, CSTS_SHST, CSTS_SHST_DONE, DOORBELLS, INTMC, INTMS,
};

/// The second words of completions; each says whether it has the right phase tag.
pub type Answers = Vec<(u64, bool)>;

/// A command that was fetched and is not over.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub queue: usize,
    /// Its number among the I/O commands.
    pub number: usize,
    pub since: u64,
    /// The head of its queue then.
    pub head: u64,
    pub command: Command,
}

/// The state of a controller.
#[derive(Clone, Debug)]
pub struct Core {
    pub registers: FakeRegisters,
    pub status: u32,
    /// Bytes of registers.
    pub length: u64,
    pub queues: BTreeMap<usize, QueuePair>,
    pub pending: Vec<Pending>,
    pub commands: usize,
    pub now: u64,
    pub is_cut: bool,
    /// All registers read as ones.
    pub is_absent: bool,
    /// Identifiers that were answered on I/O queues before they were given: their commands are over
    /// when they come.
    answered: Vec<u64>,
}

/// What a controller does. The defaults are those of an honest one.
pub trait Hooks {
    type Memory: DeviceMemory;

    /// CSTS, when it is read.
    fn status(&mut self, core: &mut Core) -> u32 {
        core.status
    }

    /// A register of the admin queue was written.
    fn set_admin(&mut self, core: &Core) {
        assert_eq!(
            core.status & CSTS_RDY,
            0,
            "an admin queue register was changed while enabled"
        );
    }

    /// CC.EN is set.
    fn enable(&mut self, core: &mut Core) {
        core.status |= CSTS_RDY;
    }

    /// CC is written without EN.
    fn disable(&mut self, core: &mut Core) {
        core.reset();
    }

    /// CC.SHN is set to `_how`.
    fn shut_down(&mut self, core: &mut Core, _how: u32) {
        core.status = core.status & !CSTS_SHST | CSTS_SHST_DONE;
    }

    /// The tail of a queue, when its doorbell is written.
    fn tail(&mut self, _memory: &Self::Memory, queue: usize, tail: u64) -> u64 {
        assert!(queue < 2, "the driver has one I/O queue");
        tail
    }

    /// The head doorbell of a queue is written.
    fn head(&mut self, _core: &Core, _queue: usize, _head: u64) {}

    /// The driver looks at the clock.
    fn look(&mut self, core: &mut Core) {
        core.now += 1;
    }

    /// The driver says what it waits for, and how long.
    fn waits(&mut self, _wait: &dyn core::fmt::Display, _limit: u64) {}

    /// How many commands are answered now.
    fn turns(&mut self, _core: &mut Core, _memory: &Self::Memory) -> u64 {
        u64::MAX
    }

    /// The place of the command that is answered next.
    fn pick(&mut self, core: &Core) -> Option<usize> {
        (!core.pending.is_empty()).then_some(0)
    }

    /// A completion was written.
    fn posted(&mut self, _memory: &Self::Memory, _queue: usize) {}

    /// Executes a command, and answers it.
    fn answer(&mut self, core: &mut Core, memory: &Self::Memory, of: &Pending) -> Answers;
}

/// A controller with its hooks.
#[derive(Debug)]
pub struct FakeController<H> {
    pub core: Core,
    pub hooks: H,
}

impl Pending {
    pub fn opcode(&self) -> u8 {
        self.command[0] as u8
    }

    /// The second word of an honest completion.
    pub fn word(&self, status: u16) -> u64 {
        let [from, id] = [(self.queue as u64) << 16, identifier(&self.command) << 32];
        self.head | from | id | u64::from(status) << 49
    }
}

impl Core {
    /// An untouched controller.
    pub const NEW: Core = Core {
        registers: FakeRegisters::NEW,
        status: 0,
        length: 0x4000,
        queues: BTreeMap::new(),
        pending: Vec::new(),
        commands: 0,
        now: 0,
        is_cut: false,
        is_absent: false,
        answered: Vec::new(),
    };

    /// Whether it can access memory on its own.
    pub fn is_running(&self) -> bool {
        self.status & CSTS_RDY != 0 && !self.is_cut && !self.is_absent
    }

    pub fn reset(&mut self) {
        self.status = 0;
        self.queues.clear();
        self.pending.clear();
    }

    pub fn queue(&mut self, queue: usize) -> &mut QueuePair {
        self.queues.entry(queue).or_default()
    }

    fn fetch(&mut self, memory: &impl DeviceMemory, queue: usize, tail: u64) {
        while let Some(command) = self.queue(queue).fetch(memory, tail) {
            let head = self.queue(queue).head;
            let (number, is_io) = (self.commands, queue > 0);
            self.commands += usize::from(is_io);
            let id = identifier(&command);
            let answered = self.answered.iter().position(|known| *known == id);
            match answered.filter(|_| is_io) {
                Some(place) => drop(self.answered.swap_remove(place)),
                None => self.pending.push(Pending {
                    queue,
                    number,
                    since: self.now,
                    head,
                    command,
                }),
            }
        }
    }

    /// Writes a completion. The command that it names is over, as far as the driver can know.
    pub fn post(&mut self, memory: &impl DeviceMemory, queue: usize, (word, is_new): (u64, bool)) {
        let pair = self.queue(queue);
        pair.put(memory, word, is_new);
        if is_new {
            pair.advance();
        }
        // Even an old phase may look new to a driver that was overrun.
        let id = word >> 32 & 0xffff;
        let before = self.pending.len();
        self.pending
            .retain(|one| one.queue != queue || identifier(&one.command) != id);
        if queue > 0 && self.pending.len() == before {
            self.answered.push(id);
        }
    }

    /// Executes an admin command of Poorwill's driver. `identify` has the answer to Identify, of a
    /// kind and a namespace.
    ///
    /// # Errors
    ///
    /// The status.
    ///
    /// # Panics
    ///
    /// When the driver needs no such command.
    pub fn administer(
        &mut self,
        memory: &impl DeviceMemory,
        command: &Command,
        identify: impl FnOnce(u8, u32) -> Result<Vec<u8>, u16>,
    ) -> Outcome {
        let (data, low, high) = (command[3], command[5], command[5] >> 32);
        match command[0] as u8 {
            0x06 => {
                let answer = identify(low as u8, (command[0] >> 32) as u32)?;
                store_bytes(memory, data, &answer);
                Ok(())
            }
            // Number of queues: this controller knows it anyhow.
            0x09 => Err(0x00d),
            opcode @ (0x05 | 0x01) => {
                assert_eq!((low & 0xffff, data % 4096, high & 1), (1, 0, 1));
                if opcode == 0x05 {
                    assert_eq!(high & 2, 0, "interrupts are on");
                } else {
                    assert_eq!(high >> 16, 1, "another completion queue");
                }
                let capabilities = self.registers.capabilities;
                self.queue(1).create(command, capabilities);
                Ok(())
            }
            _ => Err(0x001),
        }
    }
}

impl<H: Hooks> FakeController<H> {
    pub fn read(&mut self, offset: u64) -> u32 {
        // CSTS is asked for only if it is read.
        let status = match offset {
            _ if self.core.is_absent => return u32::MAX,
            CSTS => self.hooks.status(&mut self.core),
            _ => 0,
        };
        match self.core.is_absent {
            true => u32::MAX,
            false => self.core.registers.read(offset, status),
        }
    }

    /// Writes a register.
    ///
    /// # Panics
    ///
    /// When the driver must not write to it.
    pub fn write(&mut self, memory: &H::Memory, offset: u64, value: u32) {
        let FakeController { core, hooks } = self;
        let registers = &mut core.registers;
        match offset {
            _ if core.is_absent => {}
            INTMS => registers.masked |= value,
            INTMC => registers.masked &= !value,
            CC => {
                let before = core::mem::replace(&mut registers.configuration, value);
                self.configure(before, value);
            }
            AQA..=0x34 => {
                registers.admin[((offset - AQA) / 4) as usize] = value;
                hooks.set_admin(core);
            }
            DOORBELLS.. => match registers.doorbell(offset) {
                (false, queue) => hooks.head(core, queue, value.into()),
                (true, queue) => {
                    let tail = hooks.tail(memory, queue, value.into());
                    if core.is_running() && core.queue(queue).is_whole() {
                        core.fetch(memory, queue, tail);
                    }
                }
            },
            _ => panic!("register {offset:#x} was written"),
        }
    }

    fn configure(&mut self, before: u32, value: u32) {
        let FakeController { core, hooks } = self;
        let how = value >> 14 & 3;
        if how != 0 && before >> 14 & 3 == 0 {
            hooks.shut_down(core, how);
        }
        match (before & 1, value & 1) {
            (0, 1) => {
                core.queues = [(0, core.registers.admin_queues())].into();
                hooks.enable(core);
            }
            (_, 0) => hooks.disable(core),
            _ => {}
        }
    }

    /// Executes and answers commands.
    pub fn work(&mut self, memory: &H::Memory) {
        let FakeController { core, hooks } = self;
        if !core.is_running() {
            return;
        }
        for _ in 0..hooks.turns(core, memory) {
            let Some(place) = hooks.pick(core) else {
                return;
            };
            let pending = core.pending[place];
            for answer in hooks.answer(core, memory, &pending) {
                core.post(memory, pending.queue, answer);
                if answer.1 {
                    hooks.posted(memory, pending.queue);
                }
            }
        }
    }
}
