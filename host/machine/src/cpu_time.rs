use std::fs;
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// The sum of several QEMUs' CPU times. Clones share the sum.
#[derive(Clone, Debug, Default)]
pub struct CpuTime(Arc<AtomicU64>);

impl CpuTime {
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Adds one QEMU's time.
    pub fn add(&self, used: Duration) {
        let micros = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

/// Waits until `child` has ended, without reaping it. Until it is reaped, its statistics are
/// readable and its process ID is not used again.
pub(super) fn await_end(child: &Child) -> io::Result<()> {
    wait(child, WaitIdOptions::empty()).map(|_| ())
}

/// Whether `child` has ended. The child is not reaped.
pub(super) fn has_ended(child: &Child) -> bool {
    wait(child, WaitIdOptions::NOHANG).unwrap_or(true)
}

fn wait(child: &Child, more: WaitIdOptions) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | more;
    loop {
        match waitid(WaitId::Pid(Pid::from_child(child)), options) {
            Err(Errno::INTR) => {}
            other => return Ok(other?.is_some()),
        }
    }
}

/// The CPU time of all threads of `child`, in user mode and in the kernel. The child must not be
/// reaped yet. `None`: `/proc` is not readable.
pub(super) fn used_by(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let ticks = ticks(&stat)?;
    Some(Duration::from_millis(
        ticks * 1000 / clock_ticks_per_second().max(1),
    ))
}

/// Sum of `utime` and `stime` in a line of `/proc/PID/stat`. They are counted from the last
/// bracket, as the program's name before it may contain spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut numbers = behind_name.split_whitespace().skip(11);
    let mut next = || numbers.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_numbers_are_found_behind_any_name() {
        let stat = "7 (a) 1 (b) S 1 7 7 0 -1 4194560 1 2 3 4 250 31 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn the_time_of_a_killed_child_counts() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        assert!(!has_ended(&child));
        let enough = Duration::from_millis(50);
        while used_by(&child).unwrap() < enough {
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        await_end(&child).unwrap();
        assert!(has_ended(&child));
        assert!(used_by(&child).unwrap() >= enough);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_clone_is_the_same_sum() {
        let sum = CpuTime::default();
        sum.clone().add(Duration::from_millis(3));
        sum.add(Duration::from_millis(4));
        assert_eq!(sum.total(), Duration::from_millis(7));
    }
}
