use core::fmt;

use poorwill_image::Progress;
use poorwill_memory::to_usize;

use crate::machine::Job;

/// Steps of the bar. Each step costs a line on a serial port, so there are few.
const STEPS: usize = DONE.len();
const DONE: &str = "####################";
const LEFT: &str = "....................";

/// A progress bar. It makes the text; the machine prints it at each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    job: Job,
    step: usize,
}

impl Bar {
    /// A bar that has not moved yet.
    #[must_use]
    pub fn new(job: Job) -> Self {
        Bar { job, step: 0 }
    }

    /// Updates the bar. Returns true at a new step: the bar must be drawn again.
    pub fn advance(&mut self, progress: Progress) -> bool {
        let total = progress.total_pages.max(1);
        let step = to_usize(progress.done_pages.min(total) * STEPS as u64 / total);
        let has_moved = step > self.step;
        self.step = self.step.max(step);
        has_moved
    }

    /// Returns whether the bar has reached its first step, and so was drawn.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        self.step > 0
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = match self.job {
            Job::Sleeping => "sleeping",
            Job::Waking => "waking",
        };
        let (done, left) = (&DONE[..self.step], &LEFT[self.step..]);
        let percent = 100 * self.step / STEPS;
        write!(f, "{title} [{done}{left}] {percent:3} %")
    }
}
