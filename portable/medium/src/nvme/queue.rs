use core::sync::atomic::{Ordering, fence};

use poorwill_memory::Page;

use super::Registers;
use super::command::{Command, Completion};
use super::register::DOORBELLS;
use super::shared::Shared;

const SUBMISSION_WORDS: usize = 8;
const COMPLETION_WORDS: usize = 2;

/// A submission queue and its completion queue, one page each.
///
/// The caller never has more commands in flight than one less than the number of entries,
/// so neither queue can overflow.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    submissions: Shared<'a>,
    completions: Shared<'a>,
    entries: u16,
    tail: u16,
    head: u16,
    /// The phase tag of new entries in this pass.
    phase: bool,
    /// The number of consumed completions that the head doorbell does not include yet.
    unacknowledged: u16,
    tail_doorbell: u64,
    head_doorbell: u64,
}

impl<'a> Queue<'a> {
    /// The number of entries that fit in a page.
    pub(super) const MAX_ENTRIES: u16 = 64;

    /// The pair of queues `number` with `entries` entries each, at most
    /// [`Queue::MAX_ENTRIES`]. `stride` is the distance of doorbells in bytes.
    pub(super) fn new(
        (submissions, completions): (&'a mut Page, &'a mut Page),
        number: u64,
        entries: u16,
        stride: u64,
    ) -> Self {
        Queue {
            submissions: Shared::new(core::slice::from_mut(submissions)),
            completions: Shared::new(core::slice::from_mut(completions)),
            entries,
            tail: 0,
            head: 0,
            phase: true,
            unacknowledged: 0,
            tail_doorbell: DOORBELLS + 2 * number * stride,
            head_doorbell: DOORBELLS + (2 * number + 1) * stride,
        }
    }

    pub(super) fn entries(&self) -> u16 {
        self.entries
    }

    /// The device's addresses of the submission and the completion queue.
    pub(super) fn addresses(&self) -> (u64, u64) {
        (self.submissions.address(0), self.completions.address(0))
    }

    pub(super) fn submit(&mut self, registers: &impl Registers, command: &Command, id: u16) {
        let start = usize::from(self.tail) * SUBMISSION_WORDS;
        for (index, word) in (start..).zip(command.entry(id)) {
            self.submissions.set(index, word);
        }
        self.tail = (self.tail + 1) % self.entries;
        // The device must see the entry, its PRP list and the data before the doorbell.
        fence(Ordering::SeqCst);
        registers.write32(self.tail_doorbell, u32::from(self.tail));
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<Completion> {
        // All relevant fields are in the entry's second word, so a single load reads them
        // together with the phase tag.
        let word = usize::from(self.head) * COMPLETION_WORDS + 1;
        let (phase, completion) = Completion::parse(self.completions.get(word));
        if phase != self.phase {
            return None;
        }
        // The data must be read after the completion.
        fence(Ordering::SeqCst);
        self.head += 1;
        if self.head == self.entries {
            self.head = 0;
            self.phase = !self.phase;
        }
        self.unacknowledged += 1;
        Some(completion)
    }

    /// Writes the completion queue's head doorbell, but only if the queue could otherwise
    /// overflow with `depth` commands in flight. On a virtual machine each write costs an
    /// exit.
    pub(super) fn acknowledge(&mut self, registers: &impl Registers, depth: u16) {
        if self.unacknowledged > 0 && self.unacknowledged + depth >= self.entries {
            registers.write32(self.head_doorbell, u32::from(self.head));
            self.unacknowledged = 0;
        }
    }
}
