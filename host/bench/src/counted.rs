//! Counts the instructions of a sleep and its wake: plain, sealed, as a snapshot, and with the RAM
//! powered.
//!
//! The sleep area is persistent memory, so the firmware never waits, and the counts are the same
//! each time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::area::{Change, configure};
use poorwill_machine::console::{FAILURES, Fields};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::flash::Flash;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, file_memory};

use crate::BenchOptions;

/// MiB of the machine's memory that are in use.
const FILL_MIB: u32 = 64;

/// MiB in use for sealed sleeps, whose cipher takes forty instructions a byte.
const SEALED_MIB: u32 = 8;

const MEMORY_MIB: u64 = 96;

/// MiB of the sleep area, which holds two images of all memory. With its partition table it is 256
/// MiB, as a BAR's size must be a power of two.
const AREA_MIB: u64 = 254;

/// An instruction advances the machine's clock by two to this power of nanoseconds. A millisecond
/// of the firmware's time is then 16 thousand instructions.
const SHIFT: u32 = 6;

/// Time limit of one power-on.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    Sealed,
    Snapshot,
    /// Retained, with the RAM powered.
    Retained,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::Plain, Way::Sealed, Way::Snapshot, Way::Retained];

    /// Makes a new machine sleep in this way and wake. Returns names and instruction counts.
    pub(super) fn count(
        self,
        options: &BenchOptions,
        firmware: &Path,
        qemu: &Qemu,
    ) -> anyhow::Result<Vec<(String, u64)>> {
        let folder = tempfile::tempdir_in(&options.folder)?;
        let machine = self.machine(options, firmware, folder.path())?;
        let mut running = power_on(&machine, qemu)?;
        if self == Way::Retained {
            let both = self.woken(&mut running, "since_call")?;
            return Ok(vec![("retain-1".into(), both)]);
        }
        let sleep = self.slept(&mut running)?;
        running.wait_exit(LIMIT)?.check()?;
        let mut running = power_on(&machine, qemu)?;
        let wake = self.woken(&mut running, "since_start")?;
        let name = format!("{self:?}").to_lowercase();
        Ok(vec![
            (format!("sleep-{name}-1"), sleep),
            (format!("wake-{name}-1"), wake),
        ])
    }

    /// The machine whose instructions are counted.
    pub(super) fn machine(
        self,
        options: &BenchOptions,
        firmware: &Path,
        folder: &Path,
    ) -> anyhow::Result<Machine> {
        let disk = folder.join("disk");
        let mut machine = Machine::new(firmware);
        attach_area(&mut machine, &disk)?;
        configure(&disk, &self.configuration()?)?;
        machine.harts = 1;
        machine.memory = Bytes::mib(MEMORY_MIB);
        machine.kernel = Some(options.test_kernel.clone());
        let due = u32::from(self == Way::Retained);
        let mib = match self {
            Way::Sealed => SEALED_MIB,
            _ => FILL_MIB,
        };
        machine.command_line = format!("case=count fill_mib={mib} due={due}");
        if self == Way::Sealed {
            let flash = folder.join("flash");
            Flash::create(&flash)?;
            machine.flash = Some(flash);
        }
        Ok(machine.for_counts(SHIFT))
    }

    fn configuration(self) -> anyhow::Result<Change> {
        let retains = self == Way::Retained;
        let snapshot = (self == Way::Snapshot).then(|| "counted".parse());
        Ok(Change {
            mode: retains.then_some(poorwill_store::SleepMode::Retain),
            next_snapshot: snapshot.transpose()?,
            ..Change::default()
        })
    }

    /// Instructions of the sleep, as the firmware prints them at the power-off.
    fn slept(self, running: &mut RunningMachine) -> anyhow::Result<u64> {
        let (fields, text) = fields(running, "poorwill: sleep ")?;
        let mode = match self {
            Way::Snapshot => "snapshot",
            _ => "persist",
        };
        let sealed = (fields.get("sealed") == Some("yes")) == (self == Way::Sealed);
        ensure!(
            fields.get("mode") == Some(mode) && sealed,
            "the machine should sleep {self:?}, but says {text:?}"
        );
        let ms = fields.number("ms").with_context(|| format!("{text:?}"))?;
        Ok((ms * 1_000_000) >> SHIFT)
    }

    /// The test kernel's count `key` after a wake. The test kernel checks its memory first.
    fn woken(self, running: &mut RunningMachine, key: &str) -> anyhow::Result<u64> {
        if self == Way::Retained {
            fields(running, "poorwill: wake mode=retain ")?;
        }
        let (fields, text) = fields(running, "test kernel: count ")?;
        let count = fields.number(key).with_context(|| format!("{text:?}"))?;
        let exit = running.wait_exit(LIMIT)?;
        ensure!(
            exit.status.code() == Some(super::seal::DONE),
            "the test kernel found a fault ({}); the console's end:\n{}",
            exit.status,
            running.tail(15).join("\n")
        );
        Ok(count)
    }
}

/// Adds a sleep area in memory, backed by a new file.
pub(super) fn attach_area(machine: &mut Machine, file: &Path) -> anyhow::Result<()> {
    let new = NewDisk {
        root: None,
        swap: None,
        areas: vec![Bytes::mib(AREA_MIB)],
    };
    new.create(file, true, &indicatif::ProgressBar::hidden())?;
    let device = ["-device", "ivshmem-plain,memdev=area"].map(Into::into);
    let arguments = file_memory("area", file)?.map(Into::into);
    machine
        .extra_arguments
        .extend(arguments.into_iter().chain(device));
    Ok(())
}

/// Switches a machine on. A fatal console line ends a wait with an error.
pub(super) fn power_on(machine: &Machine, qemu: &Qemu) -> anyhow::Result<RunningMachine> {
    let mut running = machine.power_on(qemu, PowerOn::default())?;
    running.fail_on(&FAILURES);
    Ok(running)
}

/// The fields of the next line that starts with `beginning`.
fn fields(running: &mut RunningMachine, beginning: &str) -> anyhow::Result<(Fields, String)> {
    let line = running.wait_for(beginning, LIMIT);
    let line =
        line.with_context(|| format!("the console's end:\n{}", running.tail(15).join("\n")))?;
    let fields = Fields::parse(&line.text, beginning);
    let fields = fields.with_context(|| format!("no figures in {:?}", line.text))?;
    Ok((fields, line.text))
}
