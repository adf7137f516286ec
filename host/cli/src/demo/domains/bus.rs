//! The pane of the CAN bus: a thread reads the frames and prints a row now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use poorwill_machine::interrupt;

use crate::demo::screen::Screen;
use poorwill_bench::domains::frames::{self, Frame, now};

const TICK: Duration = Duration::from_millis(10);

/// Time between two rows.
const ROW: Duration = Duration::from_millis(500);

/// The frames on the bus.
pub(super) struct Bus {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<frames::Bus>>,
}

struct Shared {
    seen: Mutex<Seen>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Seen {
    /// The first frame after the last [`Bus::mark`].
    first: Option<Frame>,
    error: Option<anyhow::Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bus {
    /// Follows the bus of the machine that was switched on at `power_on`, in time since 1970.
    pub(super) fn follow(mut bus: frames::Bus, power_on: Duration, screen: &Screen) -> Self {
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let mut rows = Rows::new(power_on, screen.clone());
        let of_thread = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            // The last look comes after the end.
            let mut is_over = false;
            while !is_over {
                is_over = of_thread.is_over.load(Ordering::Relaxed);
                let outcome = take(&mut bus, &of_thread, &mut rows);
                if let Err(error) = outcome {
                    of_thread.lock().error = Some(error);
                    break;
                }
                thread::sleep(TICK);
            }
            bus
        });
        Bus {
            shared,
            thread: Some(thread),
        }
    }

    /// Waits for the first frame since the last [`mark`](Self::mark), or since the start.
    pub(super) fn first_frame(&self, limit: Duration) -> anyhow::Result<Frame> {
        let until = Instant::now() + limit;
        loop {
            {
                let mut seen = self.shared.lock();
                if let Some(error) = seen.error.take() {
                    return Err(error);
                }
                if let Some(frame) = seen.first {
                    return Ok(frame);
                }
            }
            interrupt::check()?;
            if Instant::now() > until {
                bail!("no frame on the bus in {limit:?}");
            }
            thread::sleep(TICK);
        }
    }

    /// Begins a new search for the first frame, after the frames up to now.
    pub(super) fn mark(&self) {
        self.shared.lock().first = None;
    }

    /// Returns whether a frame came since the last [`mark`](Self::mark).
    pub(super) fn has_frame(&self) -> bool {
        self.shared.lock().first.is_some()
    }

    /// Ends the pane after QEMU's end, and returns the bus with all frames taken.
    pub(super) fn end(&mut self) -> anyhow::Result<frames::Bus> {
        let bus = self.stop();
        match self.shared.lock().error.take() {
            Some(error) => Err(error),
            None => bus.context("the pane of the CAN bus has failed"),
        }
    }

    fn stop(&mut self) -> Option<frames::Bus> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // A panic of the thread has printed its message.
        self.thread.take()?.join().ok()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes the new frames.
fn take(bus: &mut frames::Bus, shared: &Shared, rows: &mut Rows) -> anyhow::Result<()> {
    let frames = bus.new_frames()?;
    {
        let mut seen = shared.lock();
        seen.first = seen.first.or(frames.first().copied());
    }
    rows.take(&frames, now());
    Ok(())
}

/// The rows of the pane.
struct Rows {
    power_on: Duration,
    screen: Screen,
    /// First and last number since the last row.
    since: Option<(u32, u32)>,
    next: Duration,
    is_silent: bool,
}

impl Rows {
    fn new(power_on: Duration, screen: Screen) -> Self {
        Rows {
            power_on,
            screen,
            since: None,
            next: power_on,
            is_silent: true,
        }
    }

    fn take(&mut self, frames: &[Frame], now: Duration) {
        for frame in frames {
            if self.is_silent {
                self.is_silent = false;
                self.row(frame.at, &format!("frame {}", frame.sequence));
                self.next = frame.at + ROW;
                continue;
            }
            let (first, _) = self.since.unwrap_or((frame.sequence, 0));
            self.since = Some((first, frame.sequence));
        }
        if now < self.next {
            return;
        }
        self.next = now + ROW;
        match self.since.take() {
            Some((first, last)) => self.row(now, &format!("frames {first} to {last}")),
            None if !self.is_silent => {
                self.is_silent = true;
                self.row(now, "no frame");
            }
            None => {}
        }
    }

    fn row(&self, at: Duration, text: &str) {
        self.screen.row(at.saturating_sub(self.power_on), text, "");
    }
}
