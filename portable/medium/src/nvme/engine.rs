use arrayvec::ArrayVec;
use poorwill_clock::Silence;
use poorwill_memory::{PAGE_BYTES, PAGE_WORDS, Page};

use super::command::{Command, Completion, Data, data_block, last_segment};
use super::identify::ControllerFacts;
use super::queue::Queue;
use super::shared::Shared;
use super::slots::{Purpose, Slots, UnderWay};
use super::{DEPTH, Registers};
use crate::{Direction, MediumError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stopped,
    Running,
    /// The device broke the protocol and must be halted.
    Broken,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) purpose: Purpose,
    pub(super) direction: Direction,
    pub(super) namespace: u32,
    /// The offset on the medium in bytes.
    pub(super) offset: u64,
    /// The length of a block as a power of two.
    pub(super) block_shift: u32,
}

#[derive(Debug)]
pub(super) struct Engine<'a> {
    queue: Queue<'a>,
    /// A page of PRP entries or SGL descriptors for each slot.
    lists: Shared<'a>,
    slots: Slots,
    /// The tags of finished transfers that are not returned yet.
    finished: ArrayVec<u32, DEPTH>,
    /// The first failure that is not returned yet.
    failure: Option<MediumError>,
    /// The number of commands for which a caller waits.
    awaited: usize,
    /// The time when the queue was first empty after the latest completion.
    silent_since: Option<u64>,
    silence: Silence,
    state: State,
    max_pages: usize,
    has_cache: bool,
    takes_sgl: bool,
}

/// SGL descriptors are used if runs have at least this average length in pages; for
/// shorter runs, PRP entries cost a device less. Linux has the same threshold.
const PAGES_IN_A_RUN: usize = 8;

/// The pages of all transfers in flight, if they have the maximal length: 16 MiB. A fast
/// disk is saturated by 4 MiB; a shared disk, or one with a high latency, gains from
/// more.
const PAGES_UNDER_WAY: usize = 4096;

/// The number of transfers of up to `max_pages` pages that may be in flight at once.
fn depth(queue: &Queue<'_>, max_pages: usize) -> u16 {
    let enough = (PAGES_UNDER_WAY / max_pages).min(DEPTH);
    // A queue is full with one entry left, and each slot takes an entry.
    #[allow(clippy::cast_possible_truncation, reason = "it is 32 at most")]
    (queue.entries() - 1).min(enough as u16)
}

impl<'a> Engine<'a> {
    pub(super) fn new(queue: Queue<'a>, lists: &'a mut [Page; DEPTH]) -> Self {
        Engine {
            slots: Slots::new(depth(&queue, PAGE_WORDS)),
            lists: Shared::new(lists),
            queue,
            finished: ArrayVec::new(),
            failure: None,
            awaited: 0,
            silent_since: None,
            silence: Silence::default(),
            state: State::Stopped,
            max_pages: PAGE_WORDS,
            has_cache: true,
            takes_sgl: false,
        }
    }

    /// Permits transfers, after the queue of a controller with these `facts` is created.
    pub(super) fn run(&mut self, facts: &ControllerFacts) {
        // Each slot has one page for its list.
        self.max_pages = facts
            .max_pages
            .map_or(PAGE_WORDS, |pages| pages.min(PAGE_WORDS));
        self.slots = Slots::new(depth(&self.queue, self.max_pages));
        self.has_cache = facts.has_cache;
        self.takes_sgl = facts.takes_sgl;
        self.state = State::Running;
    }

    pub(super) fn queue(&self) -> &Queue<'a> {
        &self.queue
    }

    pub(super) fn max_pages(&self) -> usize {
        self.max_pages
    }

    pub(super) fn depth(&self) -> usize {
        usize::from(self.slots.depth())
    }

    pub(super) fn has_cache(&self) -> bool {
        self.has_cache
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Whether it runs without commands in flight and without results to return.
    pub(super) fn is_idle(&self) -> bool {
        self.is_running() && self.is_quiet() && self.finished.is_empty() && self.failure.is_none()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.state != State::Broken && self.slots.under_way() == 0
    }

    /// The number of commands for which a caller waits.
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    /// Whether there is a slot for another command. A finished transfer keeps its slot
    /// until its tag is returned, so `finished` has room for all.
    pub(super) fn has_room(&self) -> bool {
        self.slots.under_way() + self.finished.len() < self.depth()
    }

    /// Drops all commands in flight; the device must be halted.
    pub(super) fn stop(&mut self) {
        self.slots = Slots::new(self.slots.depth());
        self.state = State::Stopped;
        self.forget();
    }

    /// Drops results that are not returned yet.
    pub(super) fn forget(&mut self) {
        self.finished.clear();
        self.failure = None;
        self.awaited = 0;
        self.end_silence();
    }

    /// Submits a transfer of the pages at the given addresses. The caller has checked
    /// that there is room, and that there are 1 to `max_pages` pages.
    pub(super) fn transfer(
        &mut self,
        registers: &impl Registers,
        transfer: Transfer,
        pages: impl ExactSizeIterator<Item = u64> + Clone,
    ) {
        let blocks = (pages.len() as u64 * PAGE_BYTES) >> transfer.block_shift;
        let opcode = match transfer.direction {
            Direction::Read => Command::READ,
            Direction::Write => Command::WRITE,
        };
        let mut command = Command::new(opcode, transfer.namespace);
        command.low = transfer.offset >> transfer.block_shift;
        command.high = blocks - 1;
        command.data = match self.scatter(pages.clone()) {
            Some(descriptor) => Data::Scattered(descriptor),
            None => Data::Pages(self.list(pages)),
        };
        self.submit(
            registers,
            transfer.purpose,
            transfer.direction,
            transfer.offset,
            &command,
        );
    }

    /// Submits a flush; the caller has checked that there is room.
    pub(super) fn flush(&mut self, registers: &impl Registers, namespace: u32, purpose: Purpose) {
        let command = Command::new(Command::FLUSH, namespace);
        self.submit(registers, purpose, Direction::Write, 0, &command);
    }

    /// Handles all completions in the queue.
    ///
    /// # Errors
    ///
    /// The first failure since the last call.
    #[inline]
    pub(super) fn reap(&mut self, registers: &impl Registers) -> Result<(), MediumError> {
        while self.state == State::Running {
            let Some(completion) = self.queue.take() else {
                break;
            };
            self.end_silence();
            self.settle(completion);
        }
        self.queue.acknowledge(registers, self.slots.depth());
        self.failure.take().map_or(Ok(()), Err)
    }

    #[inline]
    pub(super) fn take_finished(&mut self) -> Option<u32> {
        self.finished.pop()
    }

    /// For how many milliseconds no command has completed, while commands are in flight. Also
    /// returns whether that is to be told now.
    pub(super) fn silent_for(&mut self, now: u64, limit: u64) -> (u64, bool) {
        if self.slots.under_way() == 0 {
            return (0, false);
        }
        let since = *self.silent_since.get_or_insert(now);
        let silent = now.saturating_sub(since);
        (silent, self.silence.breaks(silent, limit))
    }

    #[inline]
    fn end_silence(&mut self) {
        self.silent_since = None;
        self.silence = Silence::default();
    }

    /// An SGL descriptor for the pages: a data block for a single run, or a segment with
    /// its list in the list page of the next slot. `None` if PRP entries are better.
    fn scatter(&mut self, pages: impl ExactSizeIterator<Item = u64>) -> Option<[u64; 2]> {
        let most = pages.len() / PAGES_IN_A_RUN;
        if !self.takes_sgl || most == 0 {
            return None;
        }
        let list = self.slots.next().unwrap_or(0) * PAGE_WORDS;
        let mut only = None;
        let mut count = 0;
        for (address, bytes) in runs(pages) {
            if count == most {
                return None;
            }
            let descriptor = data_block(address, bytes);
            only = (count == 0).then_some(descriptor);
            for (index, word) in (list + 2 * count..).zip(descriptor) {
                self.lists.set(index, word);
            }
            count += 1;
        }
        Some(only.unwrap_or_else(|| last_segment(self.lists.address(list), count)))
    }

    /// PRP entries 1 and 2 for the pages: the addresses of up to two pages, or the first
    /// address and a list of the others in the list page of the next slot.
    #[inline]
    fn list(&mut self, mut pages: impl ExactSizeIterator<Item = u64>) -> [u64; 2] {
        let first = pages.next().unwrap_or(0);
        if pages.len() <= 1 {
            return [first, pages.next().unwrap_or(0)];
        }
        let list = self.slots.next().unwrap_or(0) * PAGE_WORDS;
        for (index, address) in (list..list + PAGE_WORDS).zip(pages) {
            self.lists.set(index, address);
        }
        [first, self.lists.address(list)]
    }

    fn submit(
        &mut self,
        registers: &impl Registers,
        purpose: Purpose,
        direction: Direction,
        offset: u64,
        command: &Command,
    ) {
        let id = self.slots.take(purpose, direction, offset);
        if !purpose.has_tag() {
            self.awaited += 1;
        }
        self.queue.submit(registers, command, id);
    }

    fn settle(&mut self, completion: Completion) {
        let command = self
            .slots
            .finish(completion.id)
            .filter(|_| completion.queue == 1);
        let Some(UnderWay {
            purpose,
            direction,
            offset,
            ..
        }) = command
        else {
            self.state = State::Broken;
            self.failure = Some(MediumError::Protocol);
            return;
        };
        if !purpose.has_tag() {
            self.awaited -= 1;
        }
        let failure = match (completion.status, purpose) {
            (0, Purpose::Started(tag) | Purpose::StartedFlush(tag)) => {
                self.finished.push(tag);
                return;
            }
            (0, _) => return,
            (status, Purpose::Flush | Purpose::StartedFlush(_)) => MediumError::Flush(status),
            (status, _) => MediumError::Device {
                direction,
                offset,
                status,
            },
        };
        self.failure.get_or_insert(failure);
    }
}

/// The contiguous runs of pages: address and bytes.
fn runs(mut pages: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, u64)> {
    let mut next = pages.next();
    core::iter::from_fn(move || {
        let first = next.take()?;
        let mut bytes = PAGE_BYTES;
        for page in pages.by_ref() {
            if page != first + bytes {
                next = Some(page);
                break;
            }
            bytes += PAGE_BYTES;
        }
        Some((first, bytes))
    })
}
