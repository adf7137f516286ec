//! Shows where a run spends its time, and that it is still running.

use std::fmt::Write;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::cores::Host;

/// If no trial ends for this time, the running trials are named.
const QUIET: Duration = Duration::from_secs(60);

/// The number of trials that are shown, the slowest first.
const SHOWN: usize = 200;

/// The times of a run's trials. The last trial to end prints it.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
    ended: Condvar,
    limit: Option<Duration>,
}

#[derive(Debug)]
struct State {
    /// Trials that have not ended.
    left: usize,
    running: Vec<(String, Instant)>,
    used: Vec<Used>,
    /// The time of the last sign of life.
    heard: Instant,
}

/// The times of one trial.
#[derive(Debug)]
struct Used {
    name: String,
    /// Time from its start to its end, without the waits for turns.
    wall_clock: Duration,
    /// CPU time of its QEMUs.
    cpu: Duration,
}

impl Ledger {
    /// Opens a ledger for `trials` trials, whose QEMUs may use CPU time of `limit` in total. A
    /// thread names the running trials when no trial ends for a while.
    #[must_use]
    pub fn open(trials: usize, limit: Option<Duration>) -> Arc<Self> {
        let ledger = Arc::new(Self {
            state: Mutex::new(State {
                left: trials,
                running: Vec::new(),
                used: Vec::new(),
                heard: Instant::now(),
            }),
            ended: Condvar::new(),
            limit,
        });
        let watched = Arc::clone(&ledger);
        // If some of the counted trials do not run, the thread ends with the program.
        thread::spawn(move || watched.say_what_runs());
        ledger
    }

    /// Enters the start of a trial. Its end is the drop of the returned value.
    #[must_use]
    pub fn begin<'a>(&'a self, name: &str, host: &'a Host<'a>) -> Entry<'a> {
        let begun = Instant::now();
        self.lock().running.push((name.to_owned(), begun));
        Entry {
            ledger: self,
            name: name.to_owned(),
            host,
            begun,
        }
    }

    fn end(&self, used: Used) {
        let mut state = self.lock();
        state.running.retain(|(name, _)| *name != used.name);
        state.used.push(used);
        state.left = state.left.saturating_sub(1);
        state.heard = Instant::now();
        if state.left == 0 {
            state.used.sort_by_key(|used| std::cmp::Reverse(used.cpu));
            // In one write, as the test runner also prints.
            let table = table(&state.used, self.limit);
            let _ = io::Write::write_all(&mut io::stdout().lock(), table.as_bytes());
        }
        self.ended.notify_all();
    }

    fn say_what_runs(&self) {
        let mut state = self.lock();
        while state.left > 0 {
            let quiet = state.heard.elapsed();
            if quiet >= QUIET {
                eprintln!("{}", running(&state.running));
                state.heard = Instant::now();
            }
            let left = QUIET.saturating_sub(state.heard.elapsed());
            let waited = self.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a trial that runs.
#[derive(Debug)]
pub struct Entry<'a> {
    ledger: &'a Ledger,
    name: String,
    host: &'a Host<'a>,
    begun: Instant,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.ledger.end(Used {
            name: std::mem::take(&mut self.name),
            wall_clock: self.begun.elapsed().saturating_sub(self.host.waited()),
            cpu: self.host.cpu_time.total(),
        });
    }
}

/// The line that is printed after a minute in which no trial ended.
fn running(trials: &[(String, Instant)]) -> String {
    let named = trials.iter().map(|(name, since)| {
        let seconds = since.elapsed().as_secs();
        format!("{name} for {seconds} s")
    });
    format!("running: {}", named.collect::<Vec<_>>().join(", "))
}

/// The table at the end. `used` must be sorted, the slowest trial first.
fn table(used: &[Used], limit: Option<Duration>) -> String {
    let mut text = "\nwall clock  QEMU's CPU\n".to_owned();
    for one in used.iter().take(SHOWN) {
        let (wall_clock, cpu) = (one.wall_clock.as_secs_f64(), one.cpu.as_secs_f64());
        let _ = writeln!(text, "{wall_clock:>8.1} s {cpu:>9.1} s  {}", one.name);
    }
    if let Some(more @ 1..) = used.len().checked_sub(SHOWN) {
        let _ = writeln!(text, "and {more} more, each with less");
    }
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    let sum: Duration = used.iter().map(|one| one.cpu).sum();
    let _ = write!(
        text,
        "QEMU's CPU time in all: {:.1} core-minutes",
        minutes(sum)
    );
    if let Some(limit) = limit {
        let _ = write!(text, " (limit {:.0})", minutes(limit));
        if sum > limit {
            let _ = write!(text, "\nwarning: that is more than the limit");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Cores;

    fn used(name: &str, cpu: u64) -> Used {
        Used {
            name: name.to_owned(),
            wall_clock: Duration::from_secs(7),
            cpu: Duration::from_secs(cpu),
        }
    }

    #[test]
    fn the_sum_is_held_against_the_limit() {
        let both = [used("a/aia/1/1G", 60), used("b/aia/1/1G", 30)];
        let text = table(&both, Some(Duration::from_secs(120)));
        assert!(
            text.contains("     7.0 s      60.0 s  a/aia/1/1G\n"),
            "{text}"
        );
        assert!(text.ends_with("in all: 1.5 core-minutes (limit 2)\n"));
        assert!(table(&both, Some(Duration::from_secs(60))).contains("warning: "));
        assert!(table(&both, None).ends_with("in all: 1.5 core-minutes\n"));
    }

    #[test]
    fn a_long_table_is_cut() {
        let all: Vec<_> = (0..SHOWN + 3).map(|_| used("a", 1)).collect();
        let text = table(&all, None);
        assert!(text.contains("\nand 3 more, each with less\n"));
        assert!(!table(&all[..SHOWN], None).contains("more"));
    }

    #[test]
    fn a_trial_ends_however_it_is_left() {
        let cores = Cores::new(1);
        let ledger = Ledger::open(2, None);
        let host = Host::new(&cores, false);
        host.cpu_time.add(Duration::from_secs(2));
        let begun = Instant::now();
        let entry = ledger.begin("a", &host);
        let told = running(&ledger.lock().running);
        let seconds = told.strip_prefix("running: a for ");
        let seconds = seconds.and_then(|told| told.strip_suffix(" s")?.parse().ok());
        let is_right = |seconds: u64| seconds <= begun.elapsed().as_secs();
        assert!(seconds.is_some_and(is_right), "{told}");
        drop(entry);
        let state = ledger.lock();
        assert!(state.running.is_empty());
        assert_eq!((state.left, state.used[0].cpu.as_secs()), (1, 2));
    }
}
