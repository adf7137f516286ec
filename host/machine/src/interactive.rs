//! A machine whose serial port is the user's terminal.

use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{self, OptionalActions, Termios};

use crate::interrupt;
use crate::{Console, Machine, Qemu, StartError};

const TICK: Duration = Duration::from_millis(20);

/// Time that QEMU has to end on request, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The terminal's settings, restored when dropped. QEMU makes the terminal raw, and a killed QEMU
/// cannot restore it.
struct Terminal {
    settings: Option<Termios>,
    flags: Option<rustix::fs::OFlags>,
}

impl Terminal {
    fn keep() -> Self {
        let input = io::stdin();
        Terminal {
            settings: termios::tcgetattr(&input).ok(),
            flags: rustix::fs::fcntl_getfl(&input).ok(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let input = io::stdin();
        if let Some(settings) = &self.settings {
            let _ = termios::tcsetattr(&input, OptionalActions::Now, settings);
        }
        if let Some(flags) = self.flags {
            let _ = rustix::fs::fcntl_setfl(&input, flags);
        }
    }
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Switches `machine` on with the terminal as its console, and waits until QEMU ends. SIGTERM and
/// SIGHUP switch the machine off, and so does SIGINT without a terminal.
///
/// # Errors
///
/// [`StartError`].
pub fn run(machine: &Machine, qemu: &Qemu) -> Result<ExitStatus, StartError> {
    let (mut command, _held) = machine.prepare(qemu, Console::Terminal)?;
    let spawn_error = |reason| StartError::Spawn {
        program: qemu.program.clone(),
        reason,
    };
    let _terminal = Terminal::keep();
    let mut child = KillOnDrop(command.spawn().map_err(spawn_error)?);
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.0.try_wait().map_err(spawn_error)? {
            return Ok(status);
        }
        match asked {
            None if interrupt::requested() => {
                asked = Some(Instant::now());
                terminate(&child.0);
            }
            Some(since) if since.elapsed() > GRACE => child.0.kill().map_err(spawn_error)?,
            _ => {}
        }
        thread::sleep(TICK);
    }
}

fn terminate(child: &Child) {
    // The call fails only if QEMU has ended already.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}
