//! A machine that is cut repeatedly at the same instant, to measure cuts.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use poorwill_machine::cut::RecordReport;
use poorwill_machine::disk::{NewDisk, copy_sparse};
use poorwill_machine::flash::make_loader;
use poorwill_machine::size::Bytes;
use poorwill_machine::tree::{power_fail, write};
use poorwill_machine::{Board, Machine, PowerOn, WaitError};
use poorwill_plugin::TRACED;
use poorwill_plugin::report::Report;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::inputs::{Inputs, symbol};

/// The work of a machine when its power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// None: a shell waits for input.
    Idle,
    /// 120 processes digest a file in memory.
    Busy,
    /// The disks of an NVMe controller are written, read back and compared.
    Nvme,
}

/// A machine of the tiny guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Number of harts.
    pub harts: u32,
    /// The machine's work.
    pub load: Load,
    /// NVMe controllers that have a driver, but no work.
    pub functions: u32,
}

impl Subject {
    /// A machine without PCI functions, except those of its load.
    #[must_use]
    pub const fn new(harts: u32, load: Load) -> Self {
        Subject {
            harts,
            load,
            functions: 0,
        }
    }
}

impl Subject {
    /// Seconds that its boot and its cuts take on a usual host.
    pub(super) fn seconds(self) -> u32 {
        match self.load {
            Load::Idle => 15 + 3 * self.harts,
            Load::Busy | Load::Nvme => 30 * self.harts,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = match self.load {
            Load::Idle => "idle",
            Load::Busy => "busy",
            Load::Nvme => "nvme",
        };
        write!(f, "{load}-{}", self.harts)?;
        match self.functions {
            0 => Ok(()),
            functions => write!(f, "-functions-{functions}"),
        }
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

/// Accesses of a traced run, and what its plugin reported.
pub(super) struct TracedRun {
    pub(super) trace: PathBuf,
    pub(super) report: Report,
    /// The record in the machine's memory.
    pub(super) record: Option<RecordReport>,
}

/// A machine that was cut once, and can be put back to that cut any number of times.
pub(super) struct Bench<'a> {
    inputs: &'a Inputs,
    machine: Machine,
    disk: Option<PathBuf>,
    cache: usize,
    folder: TempDir,
}

impl<'a> Bench<'a> {
    /// Starts the machine, and cuts it.
    pub(super) fn begin(
        inputs: &'a Inputs,
        subject: Subject,
        cache: usize,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&inputs.folder)?;
        let folder = tempfile::tempdir_in(&inputs.folder)?;
        let (machine, disk) = assemble(inputs, subject, cache, folder.path())?;
        let bench = Bench {
            inputs,
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
        for file in [Some(self.ram()?), self.disk.clone()].into_iter().flatten() {
            let other = file.with_extension(name);
            let (from, to) = if back { (other, file) } else { (file, other) };
            let (from, to) = (File::open(from)?, File::create(to)?);
            let length = from.metadata()?.len();
            to.set_len(length)?;
            copy_sparse(&from, 0..length, &to, 0, &ProgressBar::hidden())?;
        }
        Ok(())
    }

    fn ram(&self) -> anyhow::Result<PathBuf> {
        self.machine.ram.clone().context("no memory file")
    }

    /// The plugin's arguments for a signal at the release of the last hart.
    pub(super) fn released(&self) -> anyhow::Result<String> {
        let released = symbol(&self.machine.firmware, "return_from_frame")?;
        Ok(format!(
            "signal-pc={released:#x},signal-count={}",
            self.machine.harts
        ))
    }

    /// Switches the machine on with caches that lose lines, and waits until it has been cut again.
    pub(super) fn power_on(&self, signal: &str) -> anyhow::Result<Report> {
        let ram = self.ram()?;
        let hold_up = u64::from(HOLD_UP_US) * 1000;
        let ram = ram.display();
        let report = self.run(&format!("ram={ram},hold-up={hold_up},{signal}"), 0)?;
        ensure!(self.record()?.is_some(), "the machine was not cut");
        Ok(report)
    }

    /// Switches the machine on, and traces its Stop after the signal.
    pub(super) fn trace_stop(&self, signal: &str) -> anyhow::Result<TracedRun> {
        let traced = self.trace("stop", signal, 0)?;
        ensure!(traced.record.is_some(), "the machine was not cut");
        Ok(traced)
    }

    /// Switches the machine on, and traces its Go up to the signal.
    pub(super) fn trace_go(&self, signal: &str) -> anyhow::Result<TracedRun> {
        self.trace("go", signal, TRACED)
    }

    fn trace(&self, span: &str, signal: &str, status: i32) -> anyhow::Result<TracedRun> {
        let trace = self.at(&format!("{span}.trace"));
        let arguments = format!("trace={},trace-of={span},{signal}", trace.display());
        Ok(TracedRun {
            report: self.run(&arguments, status)?,
            record: self.record()?,
            trace,
        })
    }

    /// The committed record in the machine's memory.
    fn record(&self) -> anyhow::Result<Option<RecordReport>> {
        let records = poorwill_machine::cut::look(&self.ram()?)?;
        Ok(records.into_iter().find(RecordReport::is_committed))
    }

    /// Runs the machine under the plugin until QEMU ends with this status.
    fn run(&self, arguments: &str, status: i32) -> anyhow::Result<Report> {
        let mut machine = self.machine.clone();
        let report = self.at("report.json");
        let plugin = format!(
            "{},report={},grace=0,l1={},{arguments}",
            self.inputs.plugin.display(),
            report.display(),
            self.cache,
        );
        let more = ["-accel", "tcg,thread=single", "-seed", "7"];
        let more = more
            .into_iter()
            .chain(["-rtc", "base=2026-01-01,clock=vm", "-plugin", &plugin]);
        machine.extra_arguments.extend(more.map(OsString::from));
        let mut running = machine.power_on(
            &self.inputs.qemu,
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
            exit.status.code() == Some(status),
            "the machine ended by itself ({}): {}\n{}",
            exit.status,
            exit.errors,
            running.tail(12).join("\n")
        );
        Ok(serde_json::from_slice(&fs::read(report)?)?)
    }
}

/// A machine with its files in `folder`, and its disk.
fn assemble(
    inputs: &Inputs,
    subject: Subject,
    cache: usize,
    folder: &Path,
) -> anyhow::Result<(Machine, Option<PathBuf>)> {
    let at = |name: &str| folder.join(name);
    make_loader(&inputs.loader, &at("loader"))?;
    let words = match subject.load {
        Load::Idle => "",
        Load::Busy => "poorwill.processes=120",
        Load::Nvme => "poorwill.load_s=600",
    };
    let mut machine = Machine {
        harts: subject.harts,
        memory: "256M".parse()?,
        ram: Some(at("ram")),
        kernel: Some(inputs.guest.kernel.clone()),
        initrd: Some(inputs.guest.initrd.clone()),
        command_line: format!("{} {words}", Board::Virt.tiny_command_line()),
        loader: Some(at("loader")),
        ..Machine::new(inputs.firmware.clone())
    };
    let mut add = |words: &[String]| {
        let words = words.iter().map(OsString::from);
        machine.extra_arguments.extend(words);
    };
    let disk = (subject.load == Load::Nvme).then(|| at("disk"));
    if let Some(file) = &disk {
        let areas = vec![Bytes::mib(64)];
        let new = NewDisk {
            root: None,
            swap: None,
            areas,
        };
        new.create(file, false, &ProgressBar::hidden())?;
        let block = serde_json::json!({
            "driver": "raw", "node-name": "disk", "cache": { "no-flush": true },
            "file": { "driver": "file", "filename": file.to_string_lossy() },
        });
        add(&["-blockdev".to_owned(), block.to_string()]);
        add(&[
            "-device".to_owned(),
            "nvme,drive=disk,serial=disk".to_owned(),
        ]);
    }
    for number in 0..subject.functions {
        let block = format!("null-co,node-name=null{number},size=67108864,read-zeroes=on");
        add(&["-blockdev".to_owned(), block]);
        let device = format!("nvme,drive=null{number},serial=null{number}");
        add(&["-device".to_owned(), device]);
    }
    let tree = power_fail(machine.interrupts, HOLD_UP_US, cache);
    write(&machine, &inputs.qemu, &tree, &at("tree.dtb"))?;
    machine
        .extra_arguments
        .extend(["-dtb".into(), at("tree.dtb").into()]);
    Ok((machine, disk))
}
