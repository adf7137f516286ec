//! An NVMe controller that is honest until its input says otherwise.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use poorwill_clock::Clock;
use poorwill_medium::nvme::Registers;
use poorwill_medium::nvme::fake::{
    Command, DeviceMemory, FakeRegisters, QueuePair, Written, identifier,
};
use poorwill_medium::nvme::register::CSTS;
use poorwill_memory::PAGE_BYTES;

use crate::dma::DmaMemory;
use crate::{Cases, Input};

/// The controller, its clock, and the memory that it was given.
#[derive(Debug)]
pub struct Device<'i> {
    /// What it may access.
    pub dma: DmaMemory,
    state: RefCell<State<'i>>,
}

#[derive(Debug)]
struct State<'i> {
    input: Input<'i>,
    registers: FakeRegisters,
    length: u64,
    ready: bool,
    fatal: bool,
    shutdown: u32,
    is_absent: bool,
    is_cut: bool,
    is_honest: bool,
    tick: u64,
    now: u64,
    looks: u64,
    queues: [QueuePair; 2],
    /// Queue and entry of commands fetched and not completed.
    pending: Vec<(usize, Command)>,
    /// Identifiers that were answered on the I/O queue before they were given:
    /// their commands are over when they come.
    answered: Vec<u64>,
}

/// AQA, ASQ and ACQ as dwords, the interrupt mask, and CC without EN and SHN.
pub type RegisterValues = ([u32; 5], u32, u32);

/// Looks at the clock that nothing here takes.
const MAX_LOOKS: u64 = 2_000_000;

/// Bytes of a block as a power of two.
const BLOCK_SHIFT: u32 = 9;

/// Blocks of each namespace.
pub const BLOCKS: u64 = 4096;

impl<'i> Device<'i> {
    /// A controller that behaves as the input says.
    #[must_use]
    pub fn new(mut input: Input<'i>) -> Self {
        let tick = [50, 7, 250, 1000][input.below(4) as usize];
        let mut state = State {
            registers: FakeRegisters::NEW,
            length: 0x4000,
            ready: false,
            fatal: false,
            shutdown: 0,
            is_absent: false,
            is_cut: false,
            is_honest: true,
            tick,
            now: 0,
            looks: 0,
            queues: [QueuePair::default(); 2],
            pending: Vec::new(),
            answered: Vec::new(),
            input: Input::new(&[]),
        };
        if input.one_in(2) {
            // As some OS left it.
            state.registers.configuration = input.any::<u32>() & !0b1100_0000_0000_1110;
            state.ready = state.registers.configuration & 1 == 1;
            state.registers.admin = input.any();
            state.registers.masked = input.any();
        }
        if input.one_in(4) {
            state.is_honest = false;
            let capabilities = state.registers.capabilities;
            state.registers.capabilities = match input.below(3) {
                0 => capabilities & !0xffff | input.below(8),
                1 => capabilities ^ 1 << input.below(64),
                _ => input.any(),
            };
            state.length = input.below(0x4000) & !3;
            state.registers.version = input.any();
        }
        state.input = input;
        Device {
            dma: DmaMemory::default(),
            state: RefCell::new(state),
        }
    }

    /// Whether it could access memory on its own.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let state = self.state.borrow();
        state.ready && !state.is_cut && !state.is_absent
    }

    /// Whether a command that moves data may still do so.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let io = |(queue, _): &(usize, Command)| *queue == 1;
        self.is_running() && self.state.borrow().pending.iter().any(io)
    }

    /// Whether it has been honest so far.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.state.borrow().is_honest
    }

    /// Milliseconds gone by, without looking at the clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.state.borrow().now
    }

    /// The registers that a driver is to put back.
    #[must_use]
    pub fn registers(&self) -> RegisterValues {
        let registers = &self.state.borrow().registers;
        (
            registers.admin,
            registers.masked,
            registers.configuration & !0xc001,
        )
    }

    /// Something for the driver's user to decide by.
    pub fn decide(&self, limit: u64) -> u64 {
        self.state.borrow_mut().input.below(limit)
    }
}

impl Clock for Device<'_> {
    fn milliseconds(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.looks += 1;
        assert!(state.looks < MAX_LOOKS, "this does not end");
        state.now += state.tick;
        state.work(&self.dma);
        state.now
    }
}

impl Registers for Device<'_> {
    fn length(&self) -> u64 {
        self.state.borrow().length
    }

    fn read32(&self, offset: u64) -> u32 {
        let mut state = self.state.borrow_mut();
        assert!(offset.is_multiple_of(4) && offset < state.length);
        if state.is_absent {
            return u32::MAX;
        }
        // CSTS is drawn from the input, and only if it is read.
        let status = if offset == CSTS { state.status() } else { 0 };
        state.registers.read(offset, status)
    }

    fn write32(&self, offset: u64, value: u32) {
        let mut state = self.state.borrow_mut();
        assert!(offset.is_multiple_of(4) && offset < state.length);
        if state.is_absent {
            return;
        }
        match state.registers.write(offset, value) {
            Written::Mask | Written::Head(_) => {}
            Written::Admin => assert!(!state.ready, "an admin queue register was changed"),
            Written::Configuration(before) => state.configure(before, value),
            Written::Tail(queue) => state.ring(&self.dma, queue, value.into()),
        }
    }

    fn cut_dma(&self) {
        self.state.borrow_mut().is_cut = true;
    }
}

impl State<'_> {
    /// CSTS. What it says of being ready is true: nobody could tell otherwise.
    fn status(&mut self) -> u32 {
        let wants = self.registers.configuration & 1 == 1;
        if wants != self.ready && !self.lies(8) {
            self.ready = wants;
            self.pending.clear();
        }
        if self.lies(64) {
            self.fatal = true;
        }
        if self.lies(64) {
            self.is_absent = true;
            return u32::MAX;
        }
        if self.shutdown == 1 && !self.lies(4) {
            self.shutdown = 2;
        }
        u32::from(self.ready) | u32::from(self.fatal) << 1 | self.shutdown << 2
    }

    /// Whether the input wants it to do something wrong, or not yet.
    fn lies(&mut self, one_in: u64) -> bool {
        let lies = self.input.one_in(one_in);
        self.is_honest &= !lies;
        lies
    }

    fn configure(&mut self, before: u32, value: u32) {
        if value >> 14 & 3 != 0 && before >> 14 & 3 == 0 {
            self.shutdown = 1;
        }
        if value & 1 == 0 {
            self.shutdown = 0;
            self.fatal = false;
        }
        if before & 1 == 0 && value & 1 == 1 {
            self.queues = [self.registers.admin_queues(), QueuePair::default()];
        }
    }

    fn ring(&mut self, dma: &DmaMemory, queue: usize, tail: u64) {
        let can_run = self.ready && !self.is_cut && !self.is_absent;
        if !can_run || !self.queues[queue].is_whole() {
            return;
        }
        while let Some(entry) = self.queues[queue].fetch(dma, tail) {
            let id = identifier(&entry);
            let answered = self.answered.iter().position(|known| *known == id);
            match answered.filter(|_| queue == 1) {
                Some(place) => drop(self.answered.swap_remove(place)),
                None => self.pending.push((queue, entry)),
            }
        }
    }

    /// Does something with what is pending, if it may.
    fn work(&mut self, dma: &DmaMemory) {
        if !self.ready || self.is_cut || self.is_absent || self.lies(32) {
            return;
        }
        if self.lies(64) && self.queues[1].is_whole() {
            let word = self.input.any();
            self.post(dma, 1, word, true);
        }
        for _ in 0..=self.input.below(4) {
            if self.pending.is_empty() {
                return;
            }
            let pick = self.input.below(self.pending.len() as u64) as usize;
            let (queue, entry) = self.pending[pick];
            self.complete(dma, queue, &entry);
        }
    }

    fn complete(&mut self, dma: &DmaMemory, queue: usize, entry: &Command) {
        let id = identifier(entry);
        let mut word = (queue as u64) << 16 | id << 32;
        if self.lies(8) {
            match self.input.below(7) {
                // Later, or never.
                0 => return,
                1 => word |= (1 + self.input.below(0x7ff)) << 49,
                2 => word ^= 1 << (32 + self.input.below(16)),
                3 => word ^= 1 << (16 + self.input.below(16)),
                4 => self.post(dma, queue, word, true),
                5 => return self.post(dma, queue, word, false),
                _ => word = self.input.any(),
            }
        } else {
            word |= u64::from(self.execute(dma, queue, entry)) << 49;
        }
        self.post(dma, queue, word, true);
    }

    /// Writes a completion. Whatever command it names is over, as far as the
    /// driver can know.
    fn post(&mut self, dma: &DmaMemory, queue: usize, word: u64, is_new: bool) {
        let pair = &mut self.queues[queue];
        pair.put(dma, word, is_new);
        if is_new {
            pair.advance();
        }
        // Even an old phase may look new to a driver that was overrun.
        let id = word >> 32 & 0xffff;
        let before = self.pending.len();
        self.pending
            .retain(|(from, entry)| *from != queue || identifier(entry) != id);
        if queue == 1 && self.pending.len() == before {
            self.answered.push(id);
        }
    }

    /// Does what a command says; the status.
    fn execute(&mut self, dma: &DmaMemory, queue: usize, entry: &Command) -> u16 {
        let (opcode, data) = (entry[0] as u8, entry[3]);
        match (queue, opcode) {
            (0, 0x06) => self.identify(dma, data, entry[5] as u8),
            (0, 0x09) => return 0x00d,
            (0, 0x05 | 0x01) => self.queues[1].create(entry, self.registers.capabilities),
            (0, _) => return 0x001,
            (_, 0) => {}
            _ => {
                // Only an honest one's blocks are known to be of the length that it meant to tell.
                let told = if self.is_honest {
                    BLOCK_SHIFT..=BLOCK_SHIFT
                } else {
                    9..=12
                };
                move_data(dma, entry, told);
            }
        }
        0
    }

    fn identify(&mut self, dma: &DmaMemory, address: u64, what: u8) {
        let mut answer = [0u8; PAGE_BYTES as usize];
        match what {
            0 => {
                answer[..8].copy_from_slice(&BLOCKS.to_le_bytes());
                answer[130] = BLOCK_SHIFT as u8;
            }
            1 => {
                answer[77] = 5;
                answer[516] = 2;
                answer[525] = 1;
                answer[536] = self.input.below(3) as u8;
            }
            _ => (answer[0], answer[4]) = (1, 2),
        }
        if self.lies(4) {
            for _ in 0..self.input.below(6) {
                let place = match self.input.below(2) {
                    0 => [0, 7, 25, 26, 77, 88, 91, 128, 130, 138, 516, 519, 525, 536]
                        [self.input.below(14) as usize],
                    _ => self.input.below(PAGE_BYTES) as usize,
                };
                answer[place] = self.input.any();
            }
        }
        for (place, word) in (address..).step_by(8).zip(answer.as_chunks::<8>().0) {
            dma.store(place, u64::from_le_bytes(*word));
        }
    }
}

/// What a read leaves in the first word of a page: where on the medium it is.
#[must_use]
pub fn stamp(byte: u64) -> u64 {
    byte ^ 0x5741_4d50_0000_0000
}

/// Reads or writes each page that the entry names, where a block has one of the lengths
/// `told`, as powers of two.
fn move_data(dma: &DmaMemory, entry: &Command, told: RangeInclusive<u32>) {
    let blocks = (entry[6] & 0xffff) + 1;
    let mut pages = told.map(|shift| (blocks << shift).div_ceil(PAGE_BYTES));
    let is_scattered = entry[0] >> 14 & 0b11 == 1;
    let places = if is_scattered {
        let places = runs(dma, entry[3], entry[4]);
        let named = places.len() as u64;
        assert!(
            pages.any(|pages| pages == named),
            "another length than the blocks'"
        );
        places
    } else {
        // A longer block's list may have more: they are not looked at.
        entries(dma, entry[3], entry[4], pages.next().expect("a length"))
    };
    for (page, address) in (0..).zip(places) {
        assert!(address.is_multiple_of(PAGE_BYTES), "no page: {address:#x}");
        let value = stamp((entry[5] << BLOCK_SHIFT).wrapping_add(page * PAGE_BYTES));
        for word in [0, 511] {
            if entry[0] as u8 == 2 {
                dma.store(address + 8 * word, value);
            } else {
                let _ = dma.load(address + 8 * word);
            }
        }
    }
}

/// The pages that PRP entries name.
fn entries(dma: &DmaMemory, first: u64, second: u64, pages: u64) -> Vec<u64> {
    let is_list = pages > 2;
    let other = |page| match page {
        0 => first,
        _ if is_list => dma.load(second + 8 * (page - 1)),
        _ => second,
    };
    (0..pages).map(other).collect()
}

/// The pages that an SGL descriptor names: a data block's, or those of a last
/// segment of such.
fn runs(dma: &DmaMemory, address: u64, rest: u64) -> Vec<u64> {
    let length = rest & 0xffff_ffff;
    let blocks = match rest >> 56 {
        0x00 => vec![(address, length)],
        0x30 => {
            assert!(length.is_multiple_of(16), "no descriptors: {length} bytes");
            (address..address + length)
                .step_by(16)
                .map(|at| (dma.load(at), dma.load(at + 8)))
                .collect()
        }
        kind => panic!("an SGL descriptor of kind {kind:#x}"),
    };
    blocks
        .into_iter()
        .flat_map(|(at, bytes)| (at..at + bytes).step_by(PAGE_BYTES as usize))
        .collect()
}
