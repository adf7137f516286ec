//! A driver as Linux's is: it sets its controller up command by command, asks for events,
//! and has it work.

use std::cell::RefCell;
use std::rc::Rc;

use poorwill_pci::Step;
use poorwill_pci::model::{MSI_X, Node};
use zerocopy::IntoBytes;

use super::model::*;
use crate::Window;
use crate::tests::board::RAM;
use crate::tests::machine::{FUNCTION, Fake};

pub(super) const ENTRIES: u32 = 8;
const BUFFER: u64 = RAM + 0x1000;
/// Rings: of the admin queue, and of the I/O queue.
const RINGS: [[u64; 2]; 2] = [[RAM + 0x2000, RAM + 0x3000], [RAM + 0x4000, RAM + 0x5000]];

/// Where doorbells are, for a driver that has them in memory.
const BELLS: u64 = RAM + 0x6000;

/// The request for events has the identifier behind all others.
pub(super) const REQUEST: u32 = ENTRIES - 1;

/// What memory that was a command's buffer is used for when that is over.
pub(super) const OTHERS: u64 = 0x0123_4567_89ab_cdef;

/// Steps until a controller is set up.
pub(super) const STEPS: u32 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    tail: u32,
    seen: u32,
    phase: u32,
}

pub(super) struct Driver {
    pub(super) machine: Fake,
    pub(super) model: Rc<RefCell<Model>>,
    queues: [Position; 2],
    next_id: u32,
    /// Its I/O queue's doorbells are in memory.
    has_buffer: bool,
}

impl Driver {
    pub(super) fn new() -> Self {
        let step = Step {
            device: FUNCTION.device,
            function: 0,
        };
        let mut node = Node::nvme(step, 0x4000, false);
        node.bar(3, 0x1000, false);
        node.define(MSI_X, 0x0003_0011, 0xc000_0000);
        node.define(MSI_X + 4, 3, 0);
        let model = Rc::new(RefCell::new(model()));
        let machine = Fake::new(node, &[0, 3], model.clone());
        Driver {
            machine,
            model,
            queues: Default::default(),
            next_id: 0,
            has_buffer: false,
        }
    }

    /// One that has taken all steps.
    pub(super) fn serving() -> Self {
        let mut driver = Driver::new();
        (0..STEPS).for_each(|step| driver.step(step));
        driver
    }

    /// Has the controller read doorbells from memory.
    pub(super) fn set_buffer(&mut self) {
        self.admin(DOORBELL_BUFFERS, [BELLS, 0, 0]);
        self.has_buffer = true;
    }

    /// Tells in memory how far it is with its I/O queue.
    fn tell(&self) {
        let Position { tail, seen, .. } = self.queues[1];
        if self.has_buffer {
            let board = &self.machine.board;
            board
                .set_memory(BELLS + 8, [tail, seen].as_bytes())
                .unwrap();
        }
    }

    pub(super) fn write(&self, register: u64, value: u32) {
        self.machine.bar(0).write32(register, value);
    }

    /// Clears a queue's completions, and begins to look there.
    fn begin(&mut self, queue: usize) {
        for place in 0..u64::from(ENTRIES) {
            let at = RINGS[queue][1] + 16 * place;
            self.machine.board.set_memory(at, &[0; 16]).unwrap();
        }
        self.queues[queue] = Position {
            phase: 1,
            ..Position::default()
        };
    }

    fn listen(&self, vector: u64) {
        for (dword, value) in [(0, 0x2800_0000), (2, 4 + vector), (3, 0)] {
            let value = u32::try_from(value).unwrap();
            self.machine.bar(3).write32(16 * vector + 4 * dword, value);
        }
    }

    /// Takes a step of setting the controller up.
    pub(super) fn step(&mut self, step: u32) {
        let low = |address: u64| u32::try_from(address).unwrap();
        let last = (ENTRIES - 1) << 16;
        match step {
            0 => {
                self.write(CC, 0);
                self.write(AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1));
                self.write(ASQ, low(RINGS[0][0]));
                self.write(ACQ, low(RINGS[0][1]));
                self.write(CC, 0x0046_0001);
            }
            1 => {
                // What the rings hold until now is of an earlier life.
                self.begin(0);
                self.listen(0);
            }
            2 => self.admin(IDENTIFY, [BUFFER, 0, 0]),
            3 => self.admin(SET_FEATURES, [0, 0x07, 1]),
            4 => self.admin(CREATE_CQ, [RINGS[1][1], u64::from(last | 1), 0x1_0003]),
            5 => self.admin(CREATE_SQ, [RINGS[1][0], u64::from(last | 1), 0x1_0001]),
            6 => {
                self.begin(1);
                self.listen(1);
            }
            7 => {
                let at = self.put(0, EVENT_REQUEST | REQUEST << 16, [0; 3]);
                self.write(DOORBELLS, at);
                // Something always follows.
                self.admin(IDENTIFY, [BUFFER, 0, 0]);
            }
            _ => unreachable!("there are no more steps"),
        }
    }

    /// Puts a command into a queue. Returns its new tail.
    fn put(&mut self, queue: usize, first: u32, [address, tenth, eleventh]: [u64; 3]) -> u32 {
        let mut command = [0_u32; 16];
        command[0] = first;
        command[1] = 1;
        command[6] = u32::try_from(address).unwrap();
        command[10] = u32::try_from(tenth).unwrap();
        command[11] = u32::try_from(eleventh).unwrap();
        let position = &mut self.queues[queue];
        let at = RINGS[queue][0] + 64 * u64::from(position.tail);
        position.tail = (position.tail + 1) % ENTRIES;
        let board = &self.machine.board;
        board.set_memory(at, command.as_bytes()).unwrap();
        position.tail
    }

    /// What is completed next in a queue, if anything is.
    pub(super) fn completed(&mut self, queue: usize) -> Option<[u32; 4]> {
        let position = &mut self.queues[queue];
        let at = RINGS[queue][1] + 16 * u64::from(position.seen);
        let found: [u32; 4] = entry(&self.machine.board, at);
        if found[3] >> 16 & 1 != position.phase {
            return None;
        }
        position.seen = (position.seen + 1) % ENTRIES;
        position.phase ^= u32::from(position.seen == 0);
        self.tell();
        Some(found)
    }

    fn submit(&mut self, queue: usize, opcode: u32, arguments: [u64; 3]) -> u32 {
        self.next_id = (self.next_id + 1) % REQUEST;
        let tail = self.put(queue, opcode | self.next_id << 16, arguments);
        self.tell();
        let bell = DOORBELLS + 8 * queue as u64;
        self.write(bell, tail);
        self.next_id
    }

    /// Executes an admin command. What was its buffer is somebody else's then.
    pub(super) fn admin(&mut self, opcode: u32, arguments: [u64; 3]) {
        let id = self.submit(0, opcode, arguments);
        let done = self.completed(0).expect("it is completed");
        assert_eq!(done[3] & 0xffff, id);
        assert_eq!(done[3] >> 17, 0, "{opcode:#x} fails");
        self.machine.board.set_word(BUFFER, OTHERS);
    }

    pub(super) fn buffer(&self) -> u64 {
        self.machine.board.word(BUFFER)
    }

    fn io(&mut self, opcode: u32, block: u32) {
        let id = self.submit(1, opcode, [BUFFER, block.into(), 0]);
        let done = self.completed(1).expect("it is completed");
        assert_eq!((done[3] & 0xffff, done[3] >> 17), (id, 0));
    }

    /// Writes a block; it is acknowledged.
    pub(super) fn write_block(&mut self, block: u32, word: u64) {
        self.machine.board.set_word(BUFFER, word);
        self.io(WRITE, block);
        self.machine.board.set_word(BUFFER, OTHERS);
    }

    pub(super) fn read_block(&mut self, block: u32) -> u64 {
        self.io(READ, block);
        let word = self.buffer();
        self.machine.board.set_word(BUFFER, OTHERS);
        word
    }

    /// Writes a block, and has told so in memory alone.
    pub(super) fn begin_to_write(&mut self, block: u32) {
        self.next_id = (self.next_id + 1) % REQUEST;
        self.put(1, WRITE | self.next_id << 16, [BUFFER, block.into(), 0]);
        self.tell();
    }

    /// Submits a command to the admin queue that is never completed.
    pub(super) fn admin_stuck(&mut self, opcode: u32) {
        self.model.borrow_mut().hooks.stuck_opcode = Some(opcode);
        self.submit(0, opcode, [BUFFER, 0, 0]);
        // One more shows how far the controller is.
        self.admin(SET_FEATURES, [0, 0x07, 1]);
    }
}
