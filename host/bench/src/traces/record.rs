//! Records a program's trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use poorwill_machine::{Machine, PowerOn, Qemu, paths};
use poorwill_plugin::TRACED;
use poorwill_plugin::cache::Geometry;
use poorwill_plugin::options::{TraceOptions, TraceSpan};

use super::error::TracesError;
use super::guest::TracedGuest;
use super::programs::Program;

/// The default number of instructions of the busiest hart before the window, and in it.
pub const USUAL_SKIP: u64 = 20_000_000;
pub const USUAL_WINDOW: u64 = 100_000_000;

/// Instructions that a slow host executes in a second.
const SLOW: u64 = 1_000_000;

/// Time limit of the guest's boot on a slow host.
const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program.
    pub program: &'static Program,
    /// Harts of the machine.
    pub harts: u32,
    /// Instructions of the busiest hart before the window, and in it.
    pub skip: u64,
    pub window: u64,
    /// The firmware and the plugin.
    pub firmware: PathBuf,
    pub plugin: PathBuf,
}

impl Recording {
    /// Runs the program in a machine of its own, and writes its trace to `file`, which appears only
    /// once it is whole. `folder` is for files that are not complete, on the same file system.
    ///
    /// # Errors
    ///
    /// The guest lacks the program, the machine ends early, or the disk is full.
    pub fn run(&self, qemu: &Qemu, folder: &Path, file: &Path) -> anyhow::Result<()> {
        let guest = TracedGuest::find()?;
        let options = TraceOptions {
            file: folder.join("trace"),
            span: TraceSpan::Program,
            skip: self.skip,
            instructions: self.window,
            guest: guest.digest,
            program: self.program.digest(),
        };
        let tiny = guest.with(self.program)?;
        let words = self.program.command.join(" ");
        let processes = self.program.started(self.harts);
        let machine = Machine {
            harts: self.harts,
            kernel: Some(tiny.kernel),
            initrd: Some(tiny.initrd),
            command_line: format!("console=ttyS0 quiet -- {processes} {words}"),
            ..Machine::new(&self.firmware)
        };
        let machine = machine.for_trace(&self.plugin, Geometry::default(), &options);
        self.await_trace(&machine, qemu)?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        fs::rename(&options.file, file).with_context(|| file.display().to_string())
    }

    fn await_trace(&self, machine: &Machine, qemu: &Qemu) -> anyhow::Result<()> {
        let mut running = machine.power_on(qemu, PowerOn::default())?;
        let all = (self.skip.saturating_add(self.window)).saturating_mul(self.harts.into());
        let limit = BOOT_LIMIT.saturating_add(Duration::from_secs(all / SLOW));
        let exit = running.wait_exit(limit)?;
        if exit.status.code() == Some(TRACED) {
            return Ok(());
        }
        Err(TracesError::NotComplete {
            program: self.program.name,
            status: exit.status,
            errors: exit.errors.trim_end().to_owned(),
            console: running.tail(8).join("\n"),
        }
        .into())
    }
}

/// The firmware and the plugin of a recording, if they are built.
///
/// # Errors
///
/// One of them is missing.
pub fn built() -> Result<(PathBuf, PathBuf), paths::PathError> {
    Ok((paths::firmware()?, paths::plugin()?))
}
