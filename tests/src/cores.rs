//! Divides the host's cores among trials.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poorwill_machine::CpuTime;

/// Shares that a core has. A machine that works takes all shares of a core.
const WORKS: usize = 2;

/// Shares of a machine that waits most of the time.
const WAITS: usize = 1;

/// The host's cores for machines. They limit the number of machines that run at a time, for any
/// number of trials that have begun. A machine that pauses takes no share.
#[derive(Debug)]
pub struct Cores {
    free: Mutex<usize>,
    returned: Condvar,
}

impl Cores {
    /// Gives trials `count` cores.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            free: Mutex::new(count.max(1) * WORKS),
            returned: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A trial's share of the host: its turns on the cores, and the time that it has used.
#[derive(Debug)]
pub struct Host<'a> {
    cores: &'a Cores,
    waits: bool,
    waited: Cell<Duration>,
    /// CPU time of the trial's QEMUs.
    pub cpu_time: CpuTime,
}

impl<'a> Host<'a> {
    /// The share of a trial. `waits`: its machines wait most of the time.
    #[must_use]
    pub fn new(cores: &'a Cores, waits: bool) -> Self {
        Self {
            cores,
            waits,
            waited: Cell::default(),
            cpu_time: CpuTime::default(),
        }
    }

    /// Waits for a turn on the cores, which lasts until it is dropped.
    ///
    /// A trial must not ask for a turn while it has one: two such trials could wait for each other.
    #[must_use]
    pub fn turn(&self) -> Turn<'a> {
        let shares = if self.waits { WAITS } else { WORKS };
        let asked = Instant::now();
        let cores = self.cores;
        let mut free = cores
            .returned
            .wait_while(cores.lock(), |free| *free < shares)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= shares;
        self.waited.set(self.waited.get() + asked.elapsed());
        Turn { cores, shares }
    }

    /// Total time of the waits for turns.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited.get()
    }
}

/// A turn on the cores, during which a machine may run.
#[derive(Debug)]
pub struct Turn<'a> {
    cores: &'a Cores,
    shares: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.cores.lock() += self.shares;
        self.cores.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn two_that_wait_share_a_core() {
        let cores = Cores::new(1);
        let (first, second) = (Host::new(&cores, true), Host::new(&cores, true));
        let _turns = (first.turn(), second.turn());
        assert_eq!(*cores.lock(), 0);
    }

    #[test]
    fn one_that_works_has_a_core_alone() {
        let cores = Cores::new(1);
        let first = Host::new(&cores, false).turn();
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let host = Host::new(&cores, false);
                drop(host.turn());
                host.waited()
            });
            thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            drop(first);
            assert!(second.join().unwrap() > Duration::ZERO);
        });
        assert_eq!(*cores.lock(), WORKS);
    }
}
