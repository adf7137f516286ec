//! A medium in memory that fails on demand, for tests.
//!
//! It distinguishes written from durable data, so that a power cut can lose any part of
//! what was not flushed. Transfers move data when they finish, not when they start, and
//! finish in any order.

use std::vec;
use std::vec::Vec;

use poorwill_memory::{OsPage, PAGE_BYTES, Page};
use zerocopy::IntoBytes;

use crate::{Direction, Medium, MediumError, check_range};

/// The bytes that a power cut writes completely or not at all.
const SECTOR: usize = 512;

/// The status of an injected device error.
pub const INJECTED_STATUS: u16 = 0x281;

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A read, blocking or started.
    Read,
    /// A write, blocking or started.
    Write,
    /// A flush.
    Flush,
}

/// The effect of a fault on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The device reports [`INJECTED_STATUS`] and does nothing.
    Fail,
    /// The device reports [`INJECTED_STATUS`], but executes the command.
    FailAfterwards,
    /// The device never answers.
    Stall,
    /// The device reports success and does nothing.
    Lie,
    /// The device reports success, but the first page of a read has a wrong bit. Other
    /// commands are executed.
    Misread,
    /// The power fails. A random part of the unflushed sectors survives, including this
    /// command's. Later commands get no answer.
    PowerCut,
}

/// The commands that a fault affects: `count` commands from number `first` on. Commands
/// of the given kind are counted from 0; `None` counts all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of command to count.
    pub command: Option<Command>,
    /// The first affected command.
    pub first: u64,
    /// The number of affected commands.
    pub count: u64,
    /// The effect on each of them.
    pub effect: Effect,
}

impl Fault {
    /// A fault of one command, counted over all kinds.
    #[must_use]
    pub fn nth(first: u64, effect: Effect) -> Self {
        Fault {
            command: None,
            first,
            count: 1,
            effect,
        }
    }

    /// A fault of all commands from `first` on, counted over all kinds.
    #[must_use]
    pub fn from(first: u64, effect: Effect) -> Self {
        Fault {
            command: None,
            first,
            count: u64::MAX,
            effect,
        }
    }
}

#[derive(Debug)]
struct Transfer {
    direction: Direction,
    offset: u64,
    pages: Vec<OsPage>,
    tag: u32,
    effect: Option<Effect>,
}

/// A medium in memory; see the [module](self).
#[derive(Debug)]
pub struct FakeMedium {
    /// The contents for reads.
    now: Vec<u8>,
    /// The contents after a power cut.
    durable: Vec<u8>,
    /// Sectors that may differ between these.
    dirty: Vec<usize>,
    transfers: Vec<Transfer>,
    max_pages: usize,
    depth: usize,
    random: u64,
    faults: Vec<(Fault, u64)>,
    dead: bool,
    scribbles: bool,
    log: Vec<Command>,
}

impl FakeMedium {
    /// A medium of `bytes` zeros, cut to whole pages. It takes up to 8 transfers at once,
    /// each of up to 64 pages.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes / PAGE_BYTES * PAGE_BYTES).expect("fits in memory");
        FakeMedium {
            now: vec![0; bytes],
            durable: vec![0; bytes],
            dirty: Vec::new(),
            transfers: Vec::new(),
            max_pages: 64,
            depth: 8,
            random: 0x9e37_79b9_7f4a_7c15,
            faults: Vec::new(),
            dead: false,
            scribbles: false,
            log: Vec::new(),
        }
    }

    /// Sets the results of [`Medium::max_pages`] and [`Medium::depth`].
    #[must_use]
    pub fn with_limits(mut self, max_pages: usize, depth: usize) -> Self {
        self.max_pages = max_pages;
        self.depth = depth;
        self
    }

    /// Selects another order of completion, and other survivors of power cuts.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self
    }

    /// Makes reads overwrite their pages with random data until they are done, as devices
    /// may.
    #[must_use]
    pub fn with_scribbles(mut self) -> Self {
        self.scribbles = true;
        self
    }

    /// Adds a fault.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.push((fault, 0));
    }

    /// Restarts the medium after a power cut. Faults, transfers and unflushed data are
    /// lost, except data that an [`Effect::PowerCut`] preserved.
    pub fn restart(&mut self) {
        for sector in self.dirty.drain(..) {
            let bytes = sector * SECTOR..(sector + 1) * SECTOR;
            self.now[bytes.clone()].copy_from_slice(&self.durable[bytes]);
        }
        self.transfers.clear();
        self.faults.clear();
        self.log.clear();
        self.dead = false;
    }

    /// The current contents.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.now
    }

    /// Changes the contents durably.
    pub fn edit(&mut self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.now);
        self.durable.copy_from_slice(&self.now);
        self.dirty.clear();
    }

    /// Flips one bit durably.
    pub fn flip(&mut self, byte: u64, bit: u8) {
        let byte = usize::try_from(byte).expect("fits in memory");
        self.now[byte] ^= 1 << bit;
        self.durable[byte] ^= 1 << bit;
    }

    /// All commands since the start or the last [`FakeMedium::restart`].
    #[must_use]
    pub fn log(&self) -> &[Command] {
        &self.log
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16).is_multiple_of(one_in)
    }

    /// Counts a command. Returns its fault.
    fn enter(&mut self, command: Command) -> Result<Option<Effect>, MediumError> {
        if self.dead {
            return Err(MediumError::TimedOut(0));
        }
        self.log.push(command);
        let mut effect = None;
        for (fault, seen) in &mut self.faults {
            if fault.command.is_none_or(|kind| kind == command) {
                let hit = *seen >= fault.first && *seen - fault.first < fault.count;
                *seen += 1;
                effect = effect.or(hit.then_some(fault.effect));
            }
        }
        Ok(effect)
    }

    fn range(&self, offset: u64, pages: usize) -> Result<usize, MediumError> {
        check_range(self.capacity(), offset, pages)?;
        Ok(usize::try_from(offset).expect("within the medium"))
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.now[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.dirty
            .extend(offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR));
    }

    fn settle(&mut self, mut survives: impl FnMut(&mut Self) -> bool) {
        for sector in core::mem::take(&mut self.dirty) {
            if survives(self) {
                let bytes = sector * SECTOR..(sector + 1) * SECTOR;
                self.durable[bytes.clone()].copy_from_slice(&self.now[bytes]);
            }
        }
    }

    fn cut_power(&mut self) -> MediumError {
        // Transfers in progress may have finished or not.
        while !self.transfers.is_empty() {
            let transfer = self.transfers.swap_remove(0);
            if transfer.direction == Direction::Write && self.chance(2) {
                self.move_pages(&transfer);
            }
        }
        self.settle(|medium| medium.chance(2));
        self.now.copy_from_slice(&self.durable);
        self.dead = true;
        MediumError::TimedOut(0)
    }

    /// Writes random data to the pages of reads in progress.
    fn scribble(&mut self) {
        let reads = |transfer: &&Transfer| transfer.direction == Direction::Read;
        for page in self
            .transfers
            .iter()
            .filter(reads)
            .flat_map(|transfer| &transfer.pages)
        {
            let pointer = core::ptr::with_exposed_provenance_mut::<Page>(
                usize::try_from(page.address()).expect("an address of this machine"),
            );
            // SAFETY: as in `move_pages`.
            unsafe { pointer.write(Page([self.random; 512])) };
        }
    }

    /// Moves the data of a transfer.
    fn move_pages(&mut self, transfer: &Transfer) {
        let mut at = usize::try_from(transfer.offset).expect("within the medium");
        let mut misread = transfer.effect == Some(Effect::Misread);
        for page in &transfer.pages {
            let pointer = core::ptr::with_exposed_provenance_mut::<Page>(
                usize::try_from(page.address()).expect("an address of this machine"),
            );
            match transfer.direction {
                Direction::Write => {
                    // SAFETY: an `OsPage` is memory that the caller of `OsMemory::new`
                    // vouched for, and belongs to the transfer until it ends.
                    let page = unsafe { &*pointer };
                    self.put(at, page.as_bytes());
                }
                Direction::Read => {
                    // SAFETY: as above, and no code reads the page before the end.
                    let page = unsafe { &mut *pointer };
                    page.as_mut_bytes()
                        .copy_from_slice(&self.now[at..][..size_of::<Page>()]);
                    if core::mem::take(&mut misread) {
                        spoil(page);
                    }
                }
            }
            at += size_of::<Page>();
        }
    }

    /// Executes a command with its fault, and returns its result.
    fn run(
        &mut self,
        effect: Option<Effect>,
        error: MediumError,
        work: impl FnOnce(&mut Self),
    ) -> Result<(), MediumError> {
        match effect {
            None | Some(Effect::Misread) => work(self),
            Some(Effect::Lie) => {}
            Some(Effect::Fail) => return Err(error),
            Some(Effect::FailAfterwards) => {
                work(self);
                return Err(error);
            }
            Some(Effect::Stall) => return Err(MediumError::TimedOut(0)),
            Some(Effect::PowerCut) => {
                work(self);
                return Err(self.cut_power());
            }
        }
        Ok(())
    }
}

/// Applies an [`Effect::Misread`] to a page.
fn spoil(page: &mut Page) {
    page.0[3] ^= 1;
}

fn device_error(direction: Direction, offset: u64) -> MediumError {
    MediumError::Device {
        direction,
        offset,
        status: INJECTED_STATUS,
    }
}

impl Medium for FakeMedium {
    fn capacity(&self) -> u64 {
        self.now.len() as u64
    }

    fn max_pages(&self) -> usize {
        self.max_pages
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        let start = self.range(offset, into.len())?;
        let effect = self.enter(Command::Read)?;
        self.run(effect, device_error(Direction::Read, offset), |medium| {
            let bytes = into.as_mut_bytes();
            bytes.copy_from_slice(&medium.now[start..start + bytes.len()]);
            if let (Some(Effect::Misread), [first, ..]) = (effect, into) {
                spoil(first);
            }
        })
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        let start = self.range(offset, from.len())?;
        let effect = self.enter(Command::Write)?;
        self.run(effect, device_error(Direction::Write, offset), |medium| {
            medium.put(start, from.as_bytes());
        })
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        let effect = self.enter(Command::Flush)?;
        if effect == Some(Effect::PowerCut) {
            // The flush is incomplete: any part is durable.
            return Err(self.cut_power());
        }
        self.run(effect, MediumError::Flush(INJECTED_STATUS), |medium| {
            medium.settle(|_| true)
        })
    }

    /// The flush is complete when this returns; [`Medium::poll`] reports its tag.
    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        if self.transfers.len() == self.depth {
            return Ok(false);
        }
        self.flush()?;
        self.transfers.push(Transfer {
            direction: Direction::Write,
            offset: 0,
            pages: Vec::new(),
            tag,
            effect: None,
        });
        Ok(true)
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        let room = self.transfers.len() < self.depth;
        if !room || pages.is_empty() || pages.len() > self.max_pages {
            return Err(MediumError::TooMany);
        }
        self.range(offset, pages.len())?;
        let effect = self.enter(match direction {
            Direction::Read => Command::Read,
            Direction::Write => Command::Write,
        })?;
        let pages = pages.to_vec();
        self.transfers.push(Transfer {
            direction,
            offset,
            pages,
            tag,
            effect,
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        if self.dead {
            return Err(MediumError::TimedOut(0));
        }
        if self.scribbles {
            self.scribble();
        }
        if self.transfers.is_empty() || self.chance(3) {
            return Ok(None);
        }
        let mut pick = 0;
        while pick + 1 < self.transfers.len() && self.chance(2) {
            pick += 1;
        }
        let transfer = self.transfers.remove(pick);
        let error = device_error(transfer.direction, transfer.offset);
        self.run(transfer.effect, error, |medium| {
            medium.move_pages(&transfer)
        })?;
        Ok(Some(transfer.tag))
    }

    fn quiesce(&mut self) {
        while let Some(transfer) = self.transfers.pop() {
            if self.chance(2) {
                self.move_pages(&transfer);
            }
        }
    }
}
