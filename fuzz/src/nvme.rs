//! An NVMe controller that is honest until its input says otherwise.

use poorwill_medium::nvme::fake::{
    Answers, Attached, Command, Core, DeviceMemory, Disk, Hooks, Pending, Space, places,
};
use poorwill_medium::nvme::register::{
    CSTS_CFS, CSTS_RDY, CSTS_SHST, CSTS_SHST_BUSY, CSTS_SHST_DONE,
};
use poorwill_memory::PAGE_BYTES;

use crate::dma::DmaMemory;
use crate::{Cases, Input};

/// The controller, its clock, and the memory that it was given.
pub type Device<'i> = Attached<Liar<'i>>;

/// What the controller does, and what its driver's user decides.
#[derive(Debug)]
pub struct Liar<'i> {
    /// The rest of the input.
    pub input: Input<'i>,
    /// It has told and done nothing wrong so far.
    pub is_honest: bool,
    disk: Disk,
    tick: u64,
    looks: u64,
}

/// Looks at the clock that nothing here takes.
const MAX_LOOKS: u64 = 2_000_000;

/// Bytes of a block as a power of two.
const BLOCK_SHIFT: u32 = 9;

/// Blocks of each namespace.
pub const BLOCKS: u64 = 4096;

/// A controller that behaves as the input says.
#[must_use]
pub fn device(mut input: Input<'_>) -> Device<'_> {
    let tick = [50, 7, 250, 1000][input.below(4) as usize];
    let (mut core, mut is_honest) = (Core::NEW, true);
    if input.one_in(2) {
        // As some OS left it.
        core.registers.configuration = input.any::<u32>() & !0b1100_0000_0000_1110;
        core.status = core.registers.configuration & CSTS_RDY;
        core.registers.admin = input.any();
        core.registers.masked = input.any();
    }
    if input.one_in(4) {
        is_honest = false;
        let capabilities = core.registers.capabilities;
        core.registers.capabilities = match input.below(3) {
            0 => capabilities & !0xffff | input.below(8),
            1 => capabilities ^ 1 << input.below(64),
            _ => input.any(),
        };
        core.length = input.below(0x4000) & !3;
        core.registers.version = input.any();
    }
    let pages = (BLOCKS << BLOCK_SHIFT) / PAGE_BYTES;
    let space = |id| Space::new(id, BLOCK_SHIFT, pages as usize);
    let mut disk = Disk::new(vec![space(1), space(2)]);
    disk.exponent = 5;
    let liar = Liar {
        input,
        is_honest,
        disk,
        tick,
        looks: 0,
    };
    Device::new(DmaMemory::default(), core, liar)
}

impl Liar<'_> {
    /// Whether the input wants it to do something wrong, or not yet.
    fn lies(&mut self, one_in: u64) -> bool {
        let lies = self.input.one_in(one_in);
        self.is_honest &= !lies;
        lies
    }

    /// Does what a command says; the status.
    fn execute(&mut self, core: &mut Core, dma: &DmaMemory, pending: &Pending) -> u16 {
        let command = &pending.command;
        if pending.queue == 0 {
            let done = core.administer(dma, command, |what, id| self.identify(what, id));
            return done.err().unwrap_or(0);
        }
        if pending.opcode() != 0 {
            self.transfer(dma, command);
        }
        0
    }

    fn identify(&mut self, what: u8, id: u32) -> Result<Vec<u8>, u16> {
        if what == 1 {
            self.disk.sgl_support = self.input.below(3) as u8;
        }
        // A namespace that was listed wrongly looks like the first.
        let id = if id == 2 { 2 } else { 1 };
        let mut answer = self.disk.identify(what, id)?;
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
        Ok(answer)
    }

    /// Reads or writes each page that the command names. Only an honest one's blocks are known to be
    /// of the length that it meant to tell.
    fn transfer(&self, dma: &DmaMemory, command: &Command) {
        let (block, blocks) = (command[5], (command[6] & 0xffff) + 1);
        let told = match self.is_honest {
            true => BLOCK_SHIFT..=BLOCK_SHIFT,
            false => 9..=12,
        };
        let mut pages = told.map(|shift| (blocks << shift).div_ceil(PAGE_BYTES));
        // A longer block's list may have more PRP entries: they are not looked at.
        let least = pages.clone().next().expect("a length");
        let (places, _) = places(dma, command, least);
        let named = places.len() as u64;
        assert!(
            pages.any(|pages| pages == named),
            "another length than the blocks'"
        );
        for (page, address) in (0..).zip(places) {
            let value = stamp((block << BLOCK_SHIFT).wrapping_add(page * PAGE_BYTES));
            for word in [0, 511] {
                if command[0] as u8 == 2 {
                    dma.store(address + 8 * word, value);
                } else {
                    let _ = dma.load(address + 8 * word);
                }
            }
        }
    }
}

impl Hooks for Liar<'_> {
    type Memory = DmaMemory;

    /// Its ready bit follows the enable bit, possibly late.
    fn status(&mut self, core: &mut Core) -> u32 {
        let wants = core.registers.configuration & CSTS_RDY;
        if wants != core.status & CSTS_RDY && !self.lies(8) {
            core.status ^= CSTS_RDY;
            core.pending.clear();
        }
        if self.lies(64) {
            core.status |= CSTS_CFS;
        }
        core.is_absent = self.lies(64);
        if !core.is_absent && core.status & CSTS_SHST_BUSY != 0 && !self.lies(4) {
            core.status ^= CSTS_SHST_BUSY | CSTS_SHST_DONE;
        }
        core.status
    }

    /// It gets ready when its status is read.
    fn enable(&mut self, _: &mut Core) {}

    fn disable(&mut self, core: &mut Core) {
        core.status &= CSTS_RDY;
    }

    fn shut_down(&mut self, core: &mut Core, _: u32) {
        core.status = core.status & !CSTS_SHST | CSTS_SHST_BUSY;
    }

    fn look(&mut self, core: &mut Core) {
        self.looks += 1;
        assert!(self.looks < MAX_LOOKS, "this does not end");
        core.now += self.tick;
    }

    fn turns(&mut self, core: &mut Core, dma: &DmaMemory) -> u64 {
        if self.lies(32) {
            return 0;
        }
        if self.lies(64) && core.queue(1).is_whole() {
            let word = self.input.any();
            core.post(dma, 1, (word, true));
        }
        1 + self.input.below(4)
    }

    fn pick(&mut self, core: &Core) -> Option<usize> {
        let all = core.pending.len() as u64;
        (all > 0).then(|| self.input.below(all) as usize)
    }

    fn answer(&mut self, core: &mut Core, dma: &DmaMemory, of: &Pending) -> Answers {
        if !self.lies(8) {
            let status = self.execute(core, dma, of);
            return vec![(of.word(status), true)];
        }
        let word = of.word(0);
        match self.input.below(7) {
            // Later, or never.
            0 => vec![],
            1 => vec![(word | (1 + self.input.below(0x7ff)) << 49, true)],
            2 => vec![(word ^ 1 << (32 + self.input.below(16)), true)],
            3 => vec![(word ^ 1 << (16 + self.input.below(16)), true)],
            4 => vec![(word, true); 2],
            5 => vec![(word, false)],
            _ => vec![(self.input.any(), true)],
        }
    }
}

/// What a read leaves in the first word of a page: where on the medium it is.
#[must_use]
pub fn stamp(byte: u64) -> u64 {
    byte ^ 0x5741_4d50_0000_0000
}
