//! A modelled NVMe controller: it executes what is in its queues, and forgets with its power
//! what it has not written.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use poorwill_medium::nvme::fake::{Answers, Core, DeviceMemory, FakeController, Hooks, Pending};
use poorwill_memory::to_usize;
use poorwill_pci::model::MSI_X;
use zerocopy::{FromBytes, IntoBytes};

use crate::tests::board::Board;
use crate::tests::machine::{FUNCTION, Registers};

pub(super) const CC: u64 = 0x14;
pub(super) const AQA: u64 = 0x24;
pub(super) const ASQ: u64 = 0x28;
pub(super) const ACQ: u64 = 0x30;
pub(super) const DOORBELLS: u64 = 0x1000;

/// Values of CC.SHN.
pub(super) const NORMAL: u32 = 0b01;
pub(super) const ABRUPT: u32 = 0b10;
const SHUT: u32 = 0b10 << 2;

/// Opcodes, and what is told of those that are not known.
pub(super) const IDENTIFY: u32 = 0x06;
pub(super) const CREATE_CQ: u32 = 0x05;
pub(super) const CREATE_SQ: u32 = 0x01;
pub(super) const SET_FEATURES: u32 = 0x09;
pub(super) const EVENT_REQUEST: u32 = 0x0c;
pub(super) const DOORBELL_BUFFERS: u32 = 0x7c;
pub(super) const WRITE: u32 = 0x01;
pub(super) const READ: u32 = 0x02;
const FLUSH: u32 = 0x00;
const INVALID_OPCODE: u16 = 0x01;
const INVALID_QUEUE: u16 = 0x100;
const INVALID_VECTOR: u16 = 0x108;

/// What Identify writes, and what is read of a block that was never written.
pub(super) const IDENTITY: u64 = 0x1d;

impl DeviceMemory for Board {
    fn load(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.dma_read(FUNCTION, address, &mut word);
        u64::from_le_bytes(word)
    }

    fn store(&self, address: u64, value: u64) {
        self.dma_write(FUNCTION, address, &value.to_le_bytes());
    }
}

/// A controller that answers at once.
pub(super) type Model = FakeController<Nvme>;

#[derive(Debug, Default)]
pub(super) struct Nvme {
    table: Vec<u32>,
    /// The vector of each queue of completions.
    vectors: BTreeMap<usize, u32>,
    /// Blocks, as they are without power, and what a cache holds of them.
    pub(super) blocks: BTreeMap<u32, u64>,
    cache: BTreeMap<u32, u64>,
    /// Where doorbells are in memory, but for the admin queue's.
    buffer: Option<u64>,
    /// It never completes commands of this opcode.
    pub(super) stuck_opcode: Option<u32>,
    /// It does not shut down.
    pub(super) never_shuts: bool,
    /// How long a normal shutdown takes, in microseconds; an abrupt one takes no time, and
    /// writes no cache.
    pub(super) shuts_us: u64,
    /// When one that is under way is done, and whether its cache is written then.
    done_at: Option<(u64, bool)>,
    /// What it was told of shutdowns.
    pub(super) notifications: Vec<u32>,
}

/// One whose power has come.
pub(super) fn model() -> Model {
    let mut core = Core::NEW;
    // A unit of time-out, doorbells side by side.
    core.registers.capabilities = 0x0100_000f;
    FakeController {
        core,
        hooks: Nvme::default(),
    }
}

/// Identifiers of pending requests for events.
pub(super) fn requests(model: &Model) -> Vec<u32> {
    let pending = model.core.pending.iter();
    let requests = pending.filter(|one| u32::from(one.opcode()) == EVENT_REQUEST);
    requests.map(|one| dwords(one)[0] >> 16).collect()
}

pub(super) fn is_enabled(model: &Model) -> bool {
    model.core.registers.configuration & 1 != 0
}

fn dwords(pending: &Pending) -> [u32; 16] {
    zerocopy::transmute!(pending.command)
}

fn address_of(command: &[u32; 16]) -> u64 {
    u64::from(command[7]) << 32 | u64::from(command[6])
}

impl Nvme {
    /// Writes its cache to the medium.
    pub(super) fn write_cache(&mut self) {
        self.blocks.append(&mut self.cache);
    }

    /// Ends a shutdown whose time has come.
    fn pass(&mut self, core: &mut Core) {
        if let Some((at, writes)) = self.done_at
            && at <= core.now
        {
            if writes {
                self.write_cache();
            }
            core.status |= SHUT;
        }
    }

    /// Where a queue's doorbells are in memory, if they are.
    fn buffered(&self, queue: usize) -> Option<u64> {
        let buffer = self.buffer.filter(|_| queue > 0)?;
        Some(buffer + 8 * queue as u64)
    }

    fn admin(&mut self, core: &mut Core, board: &Board, pending: &Pending) -> u16 {
        let command = dwords(pending);
        let (id, address) = ((command[10] & 0xffff) as usize, address_of(&command));
        match command[0] & 0xff {
            IDENTIFY => board.dma_write(FUNCTION, address, IDENTITY.as_bytes()),
            SET_FEATURES => {}
            CREATE_CQ => {
                let vector = command[11] >> 16;
                let has_messages = message_control(board) & 1 << 31 != 0;
                if vector > 0 && !has_messages {
                    return INVALID_VECTOR;
                }
                core.queue(id).create(&pending.command, u64::MAX);
                self.vectors.insert(id, vector);
            }
            CREATE_SQ => {
                // Each queue has completions of its own here.
                if (command[11] >> 16) as usize != id || !self.vectors.contains_key(&id) {
                    return INVALID_QUEUE;
                }
                core.queue(id).create(&pending.command, u64::MAX);
            }
            DOORBELL_BUFFERS => {
                self.buffer = Some(address);
                // As QEMU does: all queues are told to be where they are.
                for (id, queue) in core.queues.iter().filter(|(id, _)| **id > 0) {
                    board.dma_write(FUNCTION, address + 8 * *id as u64, queue.head.as_bytes());
                }
            }
            _ => return INVALID_OPCODE,
        }
        0
    }

    fn io(&mut self, board: &Board, command: &[u32; 16]) -> u16 {
        let (address, block) = (address_of(command), command[10]);
        match command[0] & 0xff {
            WRITE => {
                self.cache.insert(block, board.load(address));
            }
            READ => {
                let found = self.cache.get(&block).or(self.blocks.get(&block));
                board.store(address, found.copied().unwrap_or(IDENTITY));
            }
            FLUSH => self.write_cache(),
            _ => return INVALID_OPCODE,
        }
        0
    }
}

impl Hooks for Nvme {
    type Memory = Board;

    fn status(&mut self, core: &mut Core) -> u32 {
        self.pass(core);
        core.status
    }

    /// A test may change the registers at any time.
    fn set_admin(&mut self, _: &Core) {}

    fn disable(&mut self, core: &mut Core) {
        core.reset();
        self.vectors.clear();
        self.buffer = None;
        self.done_at = None;
    }

    fn shut_down(&mut self, core: &mut Core, how: u32) {
        if !self.never_shuts {
            self.notifications.push(how);
            let (takes, writes) = match how {
                NORMAL => (self.shuts_us, true),
                _ => (0, false),
            };
            self.done_at = Some((core.now + takes, writes));
            self.pass(core);
        }
    }

    fn tail(&mut self, board: &Board, queue: usize, mut tail: u64) -> u64 {
        if let Some(at) = self.buffered(queue) {
            let mut told = 0_u32;
            board.dma_read(FUNCTION, at, told.as_mut_bytes());
            tail = told.into();
        }
        tail
    }

    /// The first, but for those that it never completes.
    fn pick(&mut self, core: &Core) -> Option<usize> {
        let waits = |one: &Pending| {
            let opcode = Some(u32::from(one.opcode()));
            opcode == self.stuck_opcode || one.queue == 0 && opcode == Some(EVENT_REQUEST)
        };
        core.pending.iter().position(|one| !waits(one))
    }

    fn answer(&mut self, core: &mut Core, board: &Board, of: &Pending) -> Answers {
        let status = match of.queue {
            0 => self.admin(core, board, of),
            _ => self.io(board, &dwords(of)),
        };
        let seen = self.buffered(of.queue).map(|at| {
            let mut seen = 0_u32;
            board.dma_read(FUNCTION, at + 4, seen.as_mut_bytes());
            seen.into()
        });
        // Without room this one is lost, as the model tries no more.
        let has_room = seen != Some(core.queue(of.queue).next_tail());
        vec![(of.word(status), has_room)]
    }

    fn posted(&mut self, board: &Board, queue: usize) {
        if message_control(board) & 1 << 30 == 0 {
            let vector = self.vectors.get(&queue).copied().unwrap_or(0);
            board.interrupt(FUNCTION, &self.table, vector as usize);
        }
    }
}

impl Registers for Model {
    fn read(&mut self, board: &Board, bar: u8, offset: u64) -> u32 {
        self.core.now = board.now();
        match bar {
            0 => FakeController::read(self, offset),
            _ => self
                .hooks
                .table
                .get(to_usize(offset) / 4)
                .copied()
                .unwrap_or(0),
        }
    }

    fn write(&mut self, board: &Board, bar: u8, offset: u64, value: u32) {
        self.core.now = board.now();
        match bar {
            0 => {
                FakeController::write(self, board, offset, value);
                self.work(board);
            }
            _ => self.hooks.table[to_usize(offset) / 4] = value,
        }
    }

    fn power_on(&mut self, _: &Board) {
        let kept = core::mem::take(&mut self.hooks);
        *self = model();
        self.hooks = Nvme {
            table: [[0, 0, 0, 1]; 4].concat(),
            blocks: kept.blocks,
            notifications: kept.notifications,
            ..Nvme::default()
        };
    }
}

fn message_control(board: &Board) -> u32 {
    board.config_read(FUNCTION, u16::try_from(MSI_X).unwrap())
}

/// An entry of a ring in memory.
pub(super) fn entry<T: FromBytes + IntoBytes>(board: &Board, address: u64) -> T {
    let mut entry = T::new_zeroed();
    board.memory(address, entry.as_mut_bytes()).unwrap();
    entry
}
