//! A bar on the console that moves.

use poorwill_image::Progress;
use poorwill_sleep::Job;

use crate::platform::console::print;

/// Steps of the bar. Each costs a line on a serial port, so there are few.
const STEPS: u64 = 20;

/// A bar for one job.
#[derive(Debug)]
pub(super) struct Bar {
    title: &'static str,
    shown: u64,
}

impl Bar {
    /// A bar that has not been drawn yet.
    pub(super) fn new(job: Job) -> Self {
        let title = match job {
            Job::Sleeping => "sleeping",
            Job::Waking => "waking",
        };
        Bar { title, shown: 0 }
    }

    /// Draws the bar when it has got on by a step.
    pub(super) fn show(&mut self, progress: Progress) {
        let total = progress.total_pages.max(1);
        let step = progress.done_pages.min(total) * STEPS / total;
        if step > self.shown {
            self.shown = step;
            let (done, left) = ("####################", "....................");
            let step = step as usize;
            let percent = 100 * step as u64 / STEPS;
            print!(
                "\rpoorwill: {} [{}{}] {percent:3} %",
                self.title,
                &done[..step],
                &left[step..]
            );
        }
    }

    /// Leaves the bar's line.
    pub(super) fn end(self) {
        if self.shown > 0 {
            print!("\n");
        }
    }
}
