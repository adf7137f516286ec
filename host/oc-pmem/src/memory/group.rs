//! Two PRAM devices with a common enable, their row buffers, and the pages that wait for these.

use arrayvec::ArrayVec;

use crate::time::Time;

/// The most pages that wait.
const MOST_QUEUE: usize = 16;

/// A page with written lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) page: u64,
    /// A bit for each line of the page.
    pub(super) lines: u128,
    /// When the controller got it.
    pub(super) arrived: Time,
    /// Whether it is parity of another DIMM's line.
    pub(super) is_parity: bool,
}

/// A program operation: its page, from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) written: Written,
    pub(super) end: Time,
}

/// A group of devices. Its caller asks in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// When the devices are free of all that was started.
    pub(super) free: Time,
    /// The last program operation.
    pub(super) program: Option<Program>,
    /// The next pages, the oldest first.
    pub(super) queue: ArrayVec<Written, MOST_QUEUE>,
}

impl Group {
    /// Starts the oldest page's operation if its start is at or before `at`.
    pub(super) fn start(&mut self, at: Time, write: Time) -> Option<Program> {
        let front = self.queue.first()?;
        let start = self.free.max(front.arrived);
        (start <= at).then(|| self.start_now(start, write))
    }

    /// Starts the oldest page's operation at its earliest time. The queue must have one.
    pub(super) fn start_next(&mut self, write: Time) -> Program {
        let start = self.free.max(self.queue[0].arrived);
        self.start_now(start, write)
    }

    fn start_now(&mut self, start: Time, write: Time) -> Program {
        let written = self.queue.remove(0);
        self.free = start + write;
        let program = Program {
            written,
            end: self.free,
        };
        self.program = Some(program);
        program
    }

    /// The page that holds the line at the time `at`: one that waits, or the one in programming.
    pub(super) fn held(&self, at: Time, page: u64, line: u128, is_parity: bool) -> Option<Written> {
        let has = |written: &&Written| {
            written.page == page && written.is_parity == is_parity && written.lines & line != 0
        };
        let current = self.program.as_ref().filter(|program| program.end > at);
        let current = current.map(|program| &program.written);
        let found = self.queue.iter().rev().find(has);
        found.or_else(|| current.filter(has)).copied()
    }

    /// The waiting page of that number.
    pub(super) fn waiting(&mut self, page: u64, is_parity: bool) -> Option<&mut Written> {
        let is_same = |one: &&mut Written| one.page == page && one.is_parity == is_parity;
        self.queue.iter_mut().find(is_same)
    }

    /// Whether devices are being programmed at `at`, or will be before they are free.
    pub(super) fn is_programming(&self, at: Time) -> bool {
        self.program.is_some_and(|program| program.end > at)
    }

    /// Reads from the devices at `at` or as soon as they are free; the time of its end.
    pub(super) fn read(&mut self, at: Time, read: Time) -> Time {
        self.free = self.free.max(at) + read;
        self.free
    }
}
