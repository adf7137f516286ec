//! A modelled NVMe controller: it executes what is in its queues, and forgets with its power
//! what it has not written.

use std::collections::BTreeMap;
use std::vec::Vec;

use poorwill_medium::nvme::fake::{Command, DeviceMemory, FakeRegisters, QueuePair};
use poorwill_pci::model::MSI_X;
use zerocopy::{FromBytes, IntoBytes};

use crate::tests::board::Board;
use crate::tests::machine::{FUNCTION, Registers};

pub(super) const CC: u64 = 0x14;
pub(super) const CSTS: u64 = 0x1c;
pub(super) const AQA: u64 = 0x24;
pub(super) const ASQ: u64 = 0x28;
pub(super) const ACQ: u64 = 0x30;
pub(super) const DOORBELLS: u64 = 0x1000;

const ENABLE: u32 = 1;
const SHUTDOWN: u32 = 0b11 << 14;
pub(super) const NORMAL: u32 = 0b01 << 14;
pub(super) const ABRUPT: u32 = 0b10 << 14;
const READY: u32 = 1;
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
const INVALID_OPCODE: u32 = 0x01;
const INVALID_QUEUE: u32 = 0x100;
const INVALID_VECTOR: u32 = 0x108;

/// What Identify writes, and what is read of a block that was never written.
pub(super) const IDENTITY: u64 = 0x1d;

/// The memory of a board, as the controller reaches it.
struct Bus<'b>(&'b Board);

impl DeviceMemory for Bus<'_> {
    fn load(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.0.dma_read(FUNCTION, address, &mut word);
        u64::from_le_bytes(word)
    }

    fn store(&self, address: u64, value: u64) {
        self.0.dma_write(FUNCTION, address, &value.to_le_bytes());
    }
}

#[derive(Clone, Debug)]
struct Queue {
    pair: QueuePair,
    vector: u32,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    registers: BTreeMap<u64, u32>,
    table: Vec<u32>,
    queues: BTreeMap<u32, Queue>,
    /// Completion queues, and the vector of each.
    created: BTreeMap<u32, (QueuePair, u32)>,
    /// Identifiers of pending requests for events.
    pub(super) requests: Vec<u32>,
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

impl Model {
    fn get(&self, register: u64) -> u32 {
        self.registers.get(&register).copied().unwrap_or(0)
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.get(CC) & ENABLE != 0
    }

    fn configure(&mut self, now: u64, value: u32) {
        let was = self.get(CC);
        self.registers.insert(CC, value);
        let told = value & SHUTDOWN;
        if told != 0 && was & SHUTDOWN == 0 && !self.never_shuts {
            self.notifications.push(told);
            let (takes, writes) = match told {
                NORMAL => (self.shuts_us, true),
                _ => (0, false),
            };
            self.done_at = Some((now + takes, writes));
            self.pass(now);
        }
        if value & SHUTDOWN == 0 {
            self.done_at = None;
            let status = self.get(CSTS) & !SHUT;
            self.registers.insert(CSTS, status);
        }
        if (value ^ was) & ENABLE != 0 {
            self.queues.clear();
            self.created.clear();
            self.buffer = None;
            self.requests.clear();
            let status = self.get(CSTS) & !READY | value & ENABLE;
            self.registers.insert(CSTS, status);
        }
        if value & ENABLE != 0 && was & ENABLE == 0 {
            let registers = FakeRegisters {
                admin: [0, 4, 8, 12, 16].map(|at| self.get(AQA + at)),
                ..FakeRegisters::NEW
            };
            let pair = registers.admin_queues();
            self.queues.insert(0, Queue { pair, vector: 0 });
        }
    }

    fn ring(&mut self, board: &Board, id: u32, mut tail: u32) {
        if let Some(at) = self.buffered(id) {
            board.dma_read(FUNCTION, at, tail.as_mut_bytes());
        }
        let next = |queue: &mut Queue| queue.pair.fetch(&Bus(board), tail.into());
        while let Some(words) = self.queues.get_mut(&id).and_then(next) {
            let command: [u32; 16] = zerocopy::transmute!(words);
            let opcode = command[0] & 0xff;
            if self.stuck_opcode == Some(opcode) {
                continue;
            }
            let status = if id == 0 {
                self.admin(board, &words, &command)
            } else {
                Some(self.io(board, &command))
            };
            if let Some(status) = status {
                self.complete(board, id, (command[0] >> 16, status));
            }
        }
    }

    /// Writes its cache to the medium.
    pub(super) fn write_cache(&mut self) {
        self.blocks.append(&mut self.cache);
    }

    /// Ends a shutdown whose time has come.
    fn pass(&mut self, now: u64) {
        if let Some((at, writes)) = self.done_at
            && at <= now
        {
            if writes {
                self.blocks.append(&mut self.cache);
            }
            let status = self.get(CSTS) | SHUT;
            self.registers.insert(CSTS, status);
        }
    }

    /// Where a queue's doorbells are in memory, if they are.
    fn buffered(&self, id: u32) -> Option<u64> {
        let buffer = self.buffer.filter(|_| id > 0)?;
        Some(buffer + 8 * u64::from(id))
    }

    fn admin(&mut self, board: &Board, words: &Command, command: &[u32; 16]) -> Option<u32> {
        let address = u64::from(command[7]) << 32 | u64::from(command[6]);
        let id = command[10] & 0xffff;
        match command[0] & 0xff {
            IDENTIFY => board.dma_write(FUNCTION, address, IDENTITY.as_bytes()),
            SET_FEATURES => {}
            CREATE_CQ => {
                let vector = command[11] >> 16;
                let has_messages = message_control(board) & 1 << 31 != 0;
                if vector > 0 && !has_messages {
                    return Some(INVALID_VECTOR);
                }
                let mut pair = QueuePair::default();
                pair.create(words, u64::MAX);
                self.created.insert(id, (pair, vector));
            }
            CREATE_SQ => {
                let created = self.created.get(&(command[11] >> 16));
                let Some((mut pair, vector)) = created.copied() else {
                    return Some(INVALID_QUEUE);
                };
                pair.create(words, u64::MAX);
                self.queues.insert(id, Queue { pair, vector });
            }
            DOORBELL_BUFFERS => {
                self.buffer = Some(address);
                // As QEMU does: all queues are told to be where they are.
                for id in self.queues.keys().filter(|id| **id > 0) {
                    let queue = &self.queues[id];
                    let at = address + 8 * u64::from(*id);
                    board.dma_write(FUNCTION, at, queue.pair.head.as_bytes());
                }
            }
            EVENT_REQUEST => {
                self.requests.push(command[0] >> 16);
                return None;
            }
            _ => return Some(INVALID_OPCODE),
        }
        Some(0)
    }

    fn io(&mut self, board: &Board, command: &[u32; 16]) -> u32 {
        let address = u64::from(command[7]) << 32 | u64::from(command[6]);
        let block = command[10];
        match command[0] & 0xff {
            WRITE => {
                let mut word = [0; 8];
                board.dma_read(FUNCTION, address, &mut word);
                self.cache.insert(block, u64::from_le_bytes(word));
            }
            READ => {
                let found = self.cache.get(&block).or(self.blocks.get(&block));
                let word = found.copied().unwrap_or(IDENTITY);
                board.dma_write(FUNCTION, address, word.as_bytes());
            }
            FLUSH => self.blocks.append(&mut self.cache),
            _ => return INVALID_OPCODE,
        }
        0
    }

    fn complete(&mut self, board: &Board, id: u32, (command, status): (u32, u32)) {
        let seen = self.buffered(id).map(|at| {
            let mut seen = 0_u32;
            board.dma_read(FUNCTION, at + 4, seen.as_mut_bytes());
            seen
        });
        let queue = self.queues.get_mut(&id).unwrap();
        if seen.map(u64::from) == Some(queue.pair.next_tail()) {
            // There is no room: this one is lost, as the model tries no more.
            return;
        }
        let [from, to] = [u64::from(id) << 16, u64::from(command) << 32];
        let word = queue.pair.head | from | to | u64::from(status) << 49;
        queue.pair.put(&Bus(board), word, true);
        queue.pair.advance();
        let vector = queue.vector as usize;
        if message_control(board) & 1 << 30 == 0 {
            board.interrupt(FUNCTION, &self.table, vector);
        }
    }
}

impl Registers for Model {
    fn read(&mut self, board: &Board, bar: u8, offset: u64) -> u32 {
        self.pass(board.now());
        let place = usize::try_from(offset / 4).unwrap();
        match (bar, offset) {
            // A unit of time-out, doorbells side by side.
            (0, 0) => 0x0100_000f,
            (0, _) => self.get(offset),
            _ => self.table.get(place).copied().unwrap_or(0),
        }
    }

    fn write(&mut self, board: &Board, bar: u8, offset: u64, value: u32) {
        let place = usize::try_from(offset / 4).unwrap();
        match (bar, offset) {
            (0, CC) => self.configure(board.now(), value),
            (0, DOORBELLS..) => {
                let number = u32::try_from((offset - DOORBELLS) / 4).unwrap();
                // Completions that were seen are of no interest.
                if number.is_multiple_of(2) {
                    self.ring(board, number / 2, value);
                }
            }
            (0, _) => {
                self.registers.insert(offset, value);
            }
            _ => {
                self.table[place] = value;
            }
        }
    }

    fn power_on(&mut self, _: &Board) {
        *self = Model {
            table: [[0, 0, 0, 1]; 4].concat(),
            blocks: core::mem::take(&mut self.blocks),
            notifications: core::mem::take(&mut self.notifications),
            ..Model::default()
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
