//! A machine that is cut repeatedly at the same instant, to measure cuts.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::flash::make_loader;
use poorwill_machine::tree::{power_fail, write};
use poorwill_machine::{Board, Machine, PowerOn, Qemu, WaitError, paths};
use poorwill_plugin::report::Report;
use tempfile::TempDir;

use crate::disks::{TrialDisk, copy_part};
use crate::instant;
use crate::plan::{Attached, DiskKind};
use crate::setup::Setup;

/// The work of a machine when its power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// None: a shell waits for input.
    Idle,
    /// 120 processes digest a file in memory.
    Busy,
    /// The disks of an NVMe controller are written, read back and compared.
    Nvme,
}

/// A machine of the tiny guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Number of harts.
    pub harts: u32,
    /// The machine's work.
    pub load: Load,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = match self.load {
            Load::Idle => "idle",
            Load::Busy => "busy",
            Load::Nvme => "nvme",
        };
        write!(f, "{load}-{}", self.harts)
    }
}

impl Load {
    /// The time of the first cut, in nanoseconds since the power-on. The machine has booted and
    /// works by then. With work on each hart this takes longer, as each hart executes an
    /// instruction in a nanosecond.
    fn cut_at(self) -> u64 {
        match self {
            Load::Idle => 4_000_000_000,
            Load::Busy => 1_800_000_000,
            Load::Nvme => 1_500_000_000,
        }
    }

    /// A console line that the machine has printed by that time.
    fn words(self) -> &'static str {
        match self {
            Load::Idle => "A stock Linux",
            Load::Busy => "120 processes",
            Load::Nvme => "load on nvme",
        }
    }
}

/// The hold-up, longer than any board's, so that a slow Stop is measured and not cut off.
const HOLD_UP_US: u32 = 40_000;

/// Time limit of a power-on on a slow host.
const LIMIT: Duration = Duration::from_secs(900);

/// A machine that was cut once, and can be put back to that cut any number of times.
pub(super) struct Bench<'a> {
    qemu: &'a Qemu,
    plugin: PathBuf,
    machine: Machine,
    disk: Option<PathBuf>,
    cache: usize,
    folder: TempDir,
}

impl<'a> Bench<'a> {
    /// Starts the machine, and cuts it.
    pub(super) fn begin(setup: &'a Setup, subject: Subject, cache: usize) -> anyhow::Result<Self> {
        let found = |file: &Result<PathBuf, String>| file.clone().map_err(anyhow::Error::msg);
        let qemu = setup
            .qemu
            .as_ref()
            .map_err(|what| anyhow::anyhow!("{what}"))?;
        let work = found(&setup.work)?;
        fs::create_dir_all(&work)?;
        let folder = tempfile::tempdir_in(work)?;
        let at = |name: &str| folder.path().join(name);
        make_loader(&found(&setup.loader)?, &at("loader"))?;
        let guest = paths::Tiny::find(paths::Kernel::Stock)?;
        let words = match subject.load {
            Load::Idle => "",
            Load::Busy => "poorwill.processes=120",
            Load::Nvme => "poorwill.load_s=600",
        };
        let mut machine = Machine {
            harts: subject.harts,
            memory: "256M".parse()?,
            ram: Some(at("ram")),
            kernel: Some(guest.kernel),
            initrd: Some(guest.initrd),
            command_line: format!("{} {words}", Board::Virt.tiny_command_line()),
            loader: Some(at("loader")),
            ..Machine::new(found(&setup.firmware)?)
        };
        let disk = (subject.load == Load::Nvme).then(|| at("disk"));
        if let Some(file) = &disk {
            let kind = DiskKind {
                areas: vec!["64M".to_owned()],
                attached: Attached::NvmePrompt,
                ..DiskKind::default()
            };
            let disk = TrialDisk::make(&kind, file.clone(), None)?;
            let arguments = disk.arguments(0)?;
            (machine.extra_arguments).extend(arguments.into_iter().map(OsString::from));
        }
        let tree = power_fail(machine.interrupts, HOLD_UP_US, cache);
        write(&machine, qemu, &tree, &at("tree.dtb"))?;
        machine
            .extra_arguments
            .extend(["-dtb".into(), at("tree.dtb").into()]);
        let plugin = found(&setup.plugin)?;
        let bench = Bench {
            qemu,
            plugin,
            machine,
            disk,
            cache,
            folder,
        };
        bench.power_on(&format!("signal-at={}", subject.load.cut_at()))?;
        let said = fs::read_to_string(bench.at("console.log"))?;
        let words = subject.load.words();
        ensure!(
            said.contains(words),
            "the machine was cut before it printed {words:?}"
        );
        bench.copy("base", false)?;
        Ok(bench)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Restores memory and disk as they were after the first cut.
    pub(super) fn put_back(&self) -> anyhow::Result<()> {
        self.copy("base", true)
    }

    fn copy(&self, name: &str, back: bool) -> anyhow::Result<()> {
        let ram = self.machine.ram.clone().context("no memory file")?;
        for file in [Some(ram), self.disk.clone()].into_iter().flatten() {
            let other = file.with_extension(name);
            let (from, to) = if back { (other, file) } else { (file, other) };
            let (from, to) = (File::open(from)?, File::create(to)?);
            copy_part(&from, &to, 0..from.metadata()?.len())?;
        }
        Ok(())
    }

    /// The plugin's arguments for a signal at the release of the last hart.
    pub(super) fn released(&self) -> anyhow::Result<String> {
        let released = instant::symbol(&self.machine.firmware, "return_from_frame")?;
        Ok(format!(
            "signal-pc={released:#x},signal-count={}",
            self.machine.harts
        ))
    }

    /// Switches the machine on, and waits until it has been cut again.
    pub(super) fn power_on(&self, signal: &str) -> anyhow::Result<Report> {
        let mut machine = self.machine.clone();
        let ram = machine.ram.clone().context("no memory file")?;
        let report = self.at("report.json");
        let plugin = format!(
            "{},ram={},report={},grace=0,l1={},hold-up={},{signal}",
            self.plugin.display(),
            ram.display(),
            report.display(),
            self.cache,
            u64::from(HOLD_UP_US) * 1000
        );
        let more = ["-accel", "tcg,thread=single", "-seed", "7"];
        let more = more
            .into_iter()
            .chain(["-rtc", "base=2026-01-01,clock=vm", "-plugin", &plugin]);
        machine.extra_arguments.extend(more.map(OsString::from));
        let mut running = machine.power_on(
            self.qemu,
            PowerOn {
                log: Some(self.at("console.log")),
                ..PowerOn::default()
            },
        )?;
        let exit = match running.wait_where("its end", LIMIT, |_| false) {
            Err(WaitError::Ended { exit, .. }) => exit,
            Err(error) => return Err(error.into()),
            Ok(line) => anyhow::bail!("an unexpected line came: {line:?}"),
        };
        ensure!(
            exit.status.success() && is_cut(&ram)?,
            "the machine was not cut ({}): {}\n{}",
            exit.status,
            exit.errors,
            running.tail(12).join("\n")
        );
        Ok(serde_json::from_slice(&fs::read(report)?)?)
    }
}

fn is_cut(ram: &Path) -> anyhow::Result<bool> {
    let records = poorwill_machine::cut::look(ram)?;
    Ok(records.iter().any(|record| record.is_committed()))
}
