use core::sync::atomic::{Ordering, fence};

use poorwill_memory::Page;

use super::Registers;
use super::command::{Command, Completion};
use super::register::DOORBELLS;
use super::shared::Shared;

const SUBMISSION_WORDS: usize = 8;
const COMPLETION_WORDS: usize = 2;

/// A submission queue and its completion queue, of a page each.
///
/// The caller never has more commands under way than one less than there are
/// entries, so neither queue can run over.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    submissions: Shared<'a>,
    completions: Shared<'a>,
    entries: u16,
    tail: u16,
    head: u16,
    /// The phase tag of entries that are new in this round.
    phase: bool,
    /// Completions consumed that the head doorbell does not cover yet.
    untold: u16,
    tail_doorbell: u64,
    head_doorbell: u64,
}

impl<'a> Queue<'a> {
    /// Entries that fit in the pages of a queue.
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
            untold: 0,
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

    /// Hands a command to the device.
    pub(super) fn submit(&mut self, registers: &impl Registers, command: &Command, id: u16) {
        let start = usize::from(self.tail) * SUBMISSION_WORDS;
        for (index, word) in (start..).zip(command.entry(id)) {
            self.submissions.set(index, word);
        }
        self.tail = (self.tail + 1) % self.entries;
        // The entry, its PRP list and the data must be seen before the doorbell.
        fence(Ordering::SeqCst);
        registers.write32(self.tail_doorbell, u32::from(self.tail));
    }

    /// Takes the next completion, if there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Completion> {
        // Everything of use is in the entry's second word, so one load gets it
        // whole, phase tag and all.
        let word = usize::from(self.head) * COMPLETION_WORDS + 1;
        let (phase, completion) = Completion::parse(self.completions.get(word));
        if phase != self.phase {
            return None;
        }
        // The data must not be looked at before the completion.
        fence(Ordering::SeqCst);
        self.head += 1;
        if self.head == self.entries {
            self.head = 0;
            self.phase = !self.phase;
        }
        self.untold += 1;
        Some(completion)
    }

    /// Writes the completion queue's head doorbell, but only when the queue could otherwise
    /// overflow with `depth` commands in flight: on a virtual machine each write costs an
    /// exit.
    pub(super) fn acknowledge(&mut self, registers: &impl Registers, depth: u16) {
        if self.untold > 0 && self.untold + depth >= self.entries {
            registers.write32(self.head_doorbell, u32::from(self.head));
            self.untold = 0;
        }
    }
}
