use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::capture::{Receiver, Seen, Shared, Watcher, open_log, read_console, read_errors};
use crate::console::Line;
use crate::cpu_time::{self, CpuTime};
use crate::interrupt;
use crate::outcome::{Exit, StartError, WaitError};
use crate::qemu::in_path;
use crate::qmp::{Control, QmpError, socket_arguments, socket_folder};
use crate::ram::{self, RamLock};
use crate::size::Bytes;
use crate::supplied::{Supplied, check, supply};
use crate::{Console, Machine, Qemu};

/// Interval of checks for Ctrl-C during a wait.
const TICK: Duration = Duration::from_millis(50);

/// Time limit for QEMU to prepare a machine, for which the host provides all memory.
const PREPARE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct PowerOn {
    /// A file to which each line is appended, with its time.
    pub log: Option<PathBuf>,
    /// Called at once with each line and each state of a progress bar.
    pub watch: Option<Watcher>,
    /// The console is read in small pieces, with this time after each one. QEMU's pipe is as small as
    /// possible then.
    pub slow_console: Option<Duration>,
    /// The sum to which QEMU's CPU time is added when it ends.
    pub cpu_time: CpuTime,
}

impl std::fmt::Debug for PowerOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PowerOn")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

/// A machine that is switched on, with its console under the program's control.
///
/// Dropping it kills QEMU and waits for its end, like a pulled plug. If `setpriv` of util-linux is
/// installed, the kernel also kills QEMU when the thread that started it ends. So no QEMU outlives
/// the program.
pub struct RunningMachine {
    child: Child,
    input: Option<ChildStdin>,
    power_on: Instant,
    shared: Arc<Shared>,
    console: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
    next: usize,
    failures: Vec<String>,
    exit: Option<Exit>,
    cpu_time: CpuTime,
    /// The machine's locks and files, kept until QEMU has ended.
    held: Option<Held>,
}

impl std::fmt::Debug for RunningMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningMachine")
            .field("pid", &self.child.id())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Switches the machine on.
    ///
    /// # Errors
    ///
    /// [`StartError`]. If QEMU itself refuses, for a file in use, for example, the first wait
    /// returns [`WaitError::Ended`].
    pub fn power_on(&self, qemu: &Qemu, options: PowerOn) -> Result<RunningMachine, StartError> {
        let log = match options.log {
            None => None,
            Some(file) => Some(open_log(&file).map_err(|reason| StartError::Log { file, reason })?),
        };
        let (mut command, held) = self.prepare(qemu, Console::Pipe)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A process group of its own, so that Ctrl-C on the terminal does not end QEMU.
        command.process_group(0);
        let spawn_error = |command: &Command, reason| StartError::Spawn {
            program: command.get_program().into(),
            reason,
        };
        let folder = self.prepared.then(socket_folder).transpose();
        let folder = folder.map_err(|reason| spawn_error(&command, reason))?;
        let socket = folder.as_ref().map(|folder| folder.path().join("qmp"));
        if let Some(socket) = &socket {
            command.args(socket_arguments(socket));
        }
        let mut power_on = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|reason| spawn_error(&command, reason))?;
        if let Some(socket) = &socket {
            power_on = switch_on(&mut child, socket, &options.cpu_time)?;
        }
        let shared = Arc::<Shared>::default();
        let pause = options.slow_console;
        let console = child.stdout.take().map(|from| Receiver::of(from, pause));
        let console = console.transpose().map_err(|reason| {
            // The kill fails if QEMU has ended since.
            let _ = child.kill();
            let _ = reap(&mut child, &options.cpu_time);
            spawn_error(&command, reason)
        })?;
        let console = console.map(|from| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || read_console(from, power_on, &shared, log, options.watch))
        });
        let errors = child
            .stderr
            .take()
            .map(|from| thread::spawn(move || read_errors(from)));
        Ok(RunningMachine {
            input: child.stdin.take(),
            child,
            power_on,
            shared,
            console,
            errors,
            next: 0,
            failures: Vec::new(),
            exit: None,
            cpu_time: options.cpu_time,
            held: Some(held),
        })
    }

    /// QEMU with this machine's arguments, and the locks and files to keep until QEMU has ended.
    pub(super) fn prepare(
        &self,
        qemu: &Qemu,
        console: Console,
    ) -> Result<(Command, Held), StartError> {
        if let Some(given) = &self.power_supply {
            // The check must come before the memory file is created.
            check(self, given)?;
        }
        let ram = self.ram.as_deref().map(|file| ram::lock(file, self.memory));
        let _ram = ram.transpose()?;
        let (command, _supplied) = match &self.power_supply {
            None => (self.command(qemu, console), None),
            Some(given) => {
                let (machine, supplied) = supply(self, given, qemu)?;
                (machine.command(qemu, console), Some(supplied))
            }
        };
        Ok((command, Held { _supplied, _ram }))
    }

    /// QEMU with this machine's arguments. The kernel kills it when its parent ends.
    fn command(&self, qemu: &Qemu, console: Console) -> Command {
        let mut command = match in_path("setpriv") {
            Some(setpriv) => {
                let mut wrapped = Command::new(setpriv);
                wrapped
                    .args(["--pdeathsig", "KILL", "--"])
                    .arg(&qemu.program);
                wrapped
            }
            None => Command::new(&qemu.program),
        };
        command.args(self.arguments(console));
        command
    }
}

/// The locks and files of a running machine. Fields are dropped in this order: the lock is released
/// last.
#[derive(Debug)]
pub(super) struct Held {
    _supplied: Option<Supplied>,
    _ram: Option<RamLock>,
}

/// Switches a prepared machine on as soon as QEMU is ready, and returns the time of the power-on.
/// If QEMU has ended, the first wait reports it.
fn switch_on(child: &mut Child, socket: &Path, cpu_time: &CpuTime) -> Result<Instant, StartError> {
    let until = Instant::now() + PREPARE_LIMIT;
    loop {
        let begun = Instant::now();
        let done = Control::connect(socket, TICK).and_then(|mut control| {
            let power_on = Instant::now();
            control.switch_on().map(|()| power_on)
        });
        let has_ended = cpu_time::has_ended(child);
        match done {
            Ok(power_on) => return Ok(power_on),
            Err(_) if has_ended => return Ok(begun),
            Err(QmpError::NoSocket { .. }) if Instant::now() < until => {}
            Err(error) => {
                // The kill fails if QEMU has ended since.
                let _ = child.kill();
                let _ = reap(child, cpu_time);
                return Err(error.into());
            }
        }
    }
}

/// Waits for QEMU's end, and adds its CPU time to `sum`.
fn reap(child: &mut Child, sum: &CpuTime) -> io::Result<(ExitStatus, Duration)> {
    cpu_time::await_end(child)?;
    let used = cpu_time::used_by(child).unwrap_or_default();
    sum.add(used);
    Ok((child.wait()?, used))
}

impl RunningMachine {
    /// QEMU's process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Time since power-on.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.power_on.elapsed()
    }

    /// Memory that QEMU uses now, with the guest's RAM; `None`: QEMU has ended.
    #[must_use]
    pub fn resident(&self) -> Option<Bytes> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(Bytes(kib << 10))
    }

    /// After this call, a console line with one of these texts ends a wait with
    /// [`WaitError::Failed`]. A wait for that line itself succeeds.
    pub fn fail_on(&mut self, texts: &[&str]) {
        self.failures = texts.iter().map(|&text| text.to_owned()).collect();
    }

    /// Waits for a complete line that contains `text`. The next wait begins after this line.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> Result<Line, WaitError> {
        self.wait_where(&format!("{text:?}"), limit, |line| line.contains(text))
    }

    /// Like [`Self::wait_for`], for a line that `wanted` accepts. Errors call the line `what`.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn wait_where(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Line, WaitError> {
        let failures = self.failures.clone();
        self.wait(what, limit, |next, seen| {
            while let Some(line) = seen.lines.get(*next) {
                *next += 1;
                if wanted(&line.text) {
                    return Some(Ok(line.clone()));
                }
                if failures.iter().any(|text| line.text.contains(text)) {
                    let (what, line) = (what.to_owned(), line.text.clone());
                    return Some(Err(WaitError::Failed { what, line }));
                }
            }
            None
        })
    }

    /// Waits for an unfinished line, such as a prompt, that contains `text`.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub fn wait_for_prompt(&mut self, text: &str, limit: Duration) -> Result<(), WaitError> {
        self.wait(&format!("prompt {text:?}"), limit, |_, seen| {
            seen.pending.contains(text).then_some(Ok(()))
        })
    }

    /// Types `bytes` on the console. It fails if QEMU has ended.
    ///
    /// # Errors
    ///
    /// QEMU has ended.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(bytes)?;
        input.flush()
    }

    /// Waits until the machine is switched off.
    ///
    /// # Errors
    ///
    /// All of [`WaitError`] except [`WaitError::Ended`].
    pub fn wait_exit(&mut self, limit: Duration) -> Result<Exit, WaitError> {
        match self.wait::<()>("power-off", limit, |_, _| None) {
            Err(WaitError::Ended { exit, .. }) => Ok(exit),
            Err(error) => Err(error),
            Ok(()) => unreachable!("nothing was looked for"),
        }
    }

    /// Lets the machine run for `time`, and ignores its output.
    ///
    /// # Errors
    ///
    /// All of [`WaitError`] except [`WaitError::TimedOut`].
    pub fn run_for(&mut self, time: Duration) -> Result<(), WaitError> {
        match self.wait::<()>("a time", time, |_, _| None) {
            Err(WaitError::TimedOut { .. }) => Ok(()),
            other => other,
        }
    }

    /// Kills QEMU, like a pulled plug, and waits for its end.
    ///
    /// # Errors
    ///
    /// QEMU cannot be waited for.
    pub fn kill(&mut self) -> io::Result<Exit> {
        self.kill_group();
        self.reap()
    }

    /// Kills QEMU and all processes of its group.
    fn kill_group(&self) {
        if self.exit.is_none() {
            // The call fails only if all processes have ended. The ID is still QEMU's: QEMU is not
            // reaped yet.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }

    /// All complete lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.shared.lock().lines.clone()
    }

    /// The last `count` lines, with the unfinished one.
    #[must_use]
    pub fn tail(&self, count: usize) -> Vec<String> {
        let seen = self.shared.lock();
        let pending = (!seen.pending.is_empty()).then_some(&seen.pending);
        let all: Vec<_> = seen
            .lines
            .iter()
            .map(|line| &line.text)
            .chain(pending)
            .collect();
        all[all.len().saturating_sub(count)..]
            .iter()
            .map(|&text| text.clone())
            .collect()
    }

    /// Waits until `look` returns a value for the output so far.
    fn wait<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut(&mut usize, &Seen) -> Option<Result<T, WaitError>>,
    ) -> Result<T, WaitError> {
        let until = Instant::now() + limit;
        let shared = Arc::clone(&self.shared);
        let mut seen = shared.lock();
        loop {
            if let Some(found) = look(&mut self.next, &seen) {
                return found;
            }
            interrupt::check()?;
            if seen.closed.is_some() {
                drop(seen);
                let exit = self.reap()?;
                return Err(WaitError::Ended {
                    what: what.to_owned(),
                    exit,
                });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(WaitError::TimedOut {
                    what: what.to_owned(),
                    limit,
                });
            }
            let waited = shared.changed.wait_timeout(seen, left.min(TICK));
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reaps QEMU, which has ended or is about to end.
    fn reap(&mut self) -> io::Result<Exit> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        self.input = None;
        let (status, cpu_time) = reap(&mut self.child, &self.cpu_time)?;
        drop(self.held.take());
        let at = self.power_on.elapsed();
        if let Some(console) = self.console.take() {
            let _ = console.join();
        }
        let errors = self
            .errors
            .take()
            .and_then(|errors| errors.join().ok())
            .unwrap_or_default();
        let exit = Exit {
            status,
            at,
            errors,
            cpu_time,
        };
        self.exit = Some(exit.clone());
        Ok(exit)
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        self.kill_group();
        let _ = self.reap();
    }
}
