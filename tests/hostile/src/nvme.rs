//! The domain's NVMe controller (NVM Express Base Specification 2.0), with all addresses as the
//! caller wants them: of its queues, of data, of lists. Each command has a new start of the
//! controller before it, so that no queue wraps, and no failure lasts.

use core::cell::UnsafeCell;

use poorwill_bare::hart::time;
use poorwill_medium::nvme::register::{
    ACQ, AQA, ASQ, CC, CC_EN, CSTS, CSTS_CFS, CSTS_RDY, DOORBELLS,
};

use crate::probe::{read, write};

/// Entries of 64 bytes (2^6) and 16 bytes (2^4), 4 KiB pages, NVM command set.
const CC_RUN: u32 = 4 << 20 | 6 << 16 | CC_EN;

/// Bytes of a page, and of a block of the disk.
pub(crate) const PAGE: u64 = 4096;
const BLOCK: u64 = 512;

/// Entries of each queue, less one.
const LAST: u64 = 3;
/// The distance of doorbells: QEMU's CAP.DSTRD is 0.
const STRIDE: u64 = 4;

/// Limit of a wait, in units of 100 ns.
const LIMIT: u64 = 10_000_000;

/// Opcodes of admin commands, and of I/O commands.
const CREATE_SUBMISSIONS: u64 = 1;
const CREATE_COMPLETIONS: u64 = 5;
pub(crate) const WRITE: u64 = 1;
pub(crate) const READ: u64 = 2;

/// The status "Data Transfer Error": the controller could not access memory.
pub(crate) const TRANSFER_ERROR: u16 = 4;

/// A page that the controller may access.
#[repr(C, align(4096))]
pub(crate) struct Page(UnsafeCell<[u64; WORDS]>);

const WORDS: usize = 512;

// SAFETY: one hart uses it.
unsafe impl Sync for Page {}

impl Page {
    pub(crate) const fn new() -> Self {
        Page(UnsafeCell::new([0; WORDS]))
    }

    pub(crate) fn address(&self) -> u64 {
        self.0.get().expose_provenance() as u64
    }

    pub(crate) fn set(&self, place: usize, value: u64) {
        assert!(place < WORDS, "a page has {WORDS} words");
        // SAFETY: within the page. The controller reads it later.
        unsafe { self.0.get().cast::<u64>().add(place).write_volatile(value) };
    }

    pub(crate) fn word(&self, place: usize) -> u64 {
        assert!(place < WORDS, "a page has {WORDS} words");
        // SAFETY: within the page. The controller wrote it before.
        unsafe { self.0.get().cast::<u64>().add(place).read_volatile() }
    }

    pub(crate) fn fill(&self, value: u64) {
        (0..WORDS).for_each(|place| self.set(place, value));
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        (0..WORDS).map(|place| self.word(place))
    }
}

/// The queues: admin submissions and completions, I/O submissions and completions.
static QUEUES: [Page; 4] = [const { Page::new() }; 4];
const ADMIN: usize = 0;
const IO: usize = 1;

/// The addresses of the domain's own queues.
pub(crate) fn own_queues() -> [u64; 4] {
    QUEUES.each_ref().map(Page::address)
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a completion; its status is 0 for success.
    Done(u16),
    /// The controller failed: it could not access a queue.
    Failed,
    /// The controller does not answer.
    Silent,
}

/// An I/O command.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// [`READ`] writes to memory, and [`WRITE`] reads from it.
    pub(crate) opcode: u64,
    /// PRP entries 1 and 2.
    pub(crate) pages: [u64; 2],
    /// The first block.
    pub(crate) block: u64,
    /// Bytes, a multiple of the block's.
    pub(crate) bytes: u64,
}

/// The controller, by the address of its registers.
#[derive(Clone, Copy)]
pub(crate) struct Nvme(pub(crate) u64);

impl Nvme {
    /// Starts the controller with queues at these addresses, and makes the transfer. It requests
    /// interrupts.
    pub(crate) fn run(self, queues: [u64; 4], transfer: Transfer) -> Outcome {
        let started = self.start(queues);
        if started != Outcome::Done(0) {
            return started;
        }
        let Transfer {
            opcode,
            pages,
            block,
            bytes,
        } = transfer;
        let namespace = 1 << 32;
        self.command(
            IO,
            0,
            [
                opcode | namespace,
                pages[0],
                pages[1],
                block,
                bytes / BLOCK - 1,
            ],
        )
    }

    /// Makes the transfer with the domain's own queues.
    pub(crate) fn transfer(self, transfer: Transfer) -> Outcome {
        self.run(own_queues(), transfer)
    }

    fn start(self, queues: [u64; 4]) -> Outcome {
        write(self.0 + CC, 0);
        self.wait(|status| status & CSTS_RDY == 0);
        QUEUES.iter().for_each(|page| page.fill(0));
        write(self.0 + AQA, (LAST << 16 | LAST) as u32);
        for (register, address) in [(ASQ, queues[0]), (ACQ, queues[1])] {
            write(self.0 + register, address as u32);
            write(self.0 + register + 4, (address >> 32) as u32);
        }
        write(self.0 + CC, CC_RUN);
        if !self.wait(|status| status & (CSTS_RDY | CSTS_CFS) != 0) {
            return Outcome::Silent;
        }
        // Queue 1 of each kind is contiguous; completions request interrupts, by vector 0.
        let size = LAST << 16 | 1;
        let completions = [CREATE_COMPLETIONS, queues[3], 0, 0b11 << 32 | size, 0];
        let submissions = [
            CREATE_SUBMISSIONS,
            queues[2],
            0,
            (1 << 16 | 1) << 32 | size,
            0,
        ];
        match self.command(ADMIN, 0, completions) {
            Outcome::Done(0) => self.command(ADMIN, 1, submissions),
            failed => failed,
        }
    }

    /// Queues the command of this index: its words 0, 3 and 4 (PRP entries), 5, and 6.
    fn command(self, queue: usize, index: usize, words: [u64; 5]) -> Outcome {
        let [submissions, completions] = [&QUEUES[2 * queue], &QUEUES[2 * queue + 1]];
        for (word, value) in [0, 3, 4, 5, 6].into_iter().zip(words) {
            submissions.set(8 * index + word, value);
        }
        write(
            self.0 + DOORBELLS + 2 * STRIDE * queue as u64,
            index as u32 + 1,
        );
        let end = time() + LIMIT;
        while time() < end {
            // Status and phase, which is 1 in a queue's first round.
            let status = (completions.word(2 * index + 1) >> 48) as u16;
            if status & 1 != 0 {
                return Outcome::Done(status >> 1 & 0x7ff);
            }
            if read(self.0 + CSTS) & CSTS_CFS != 0 {
                return Outcome::Failed;
            }
        }
        Outcome::Silent
    }

    fn wait(self, is_over: impl Fn(u32) -> bool) -> bool {
        let end = time() + LIMIT;
        while time() < end {
            if is_over(read(self.0 + CSTS)) {
                return true;
            }
        }
        false
    }
}
