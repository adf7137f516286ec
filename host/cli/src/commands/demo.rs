//! `poorwill demo`: shows and measures how machines sleep and wake.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use poorwill_bench::appliance::{self, ApplianceOptions};
use poorwill_machine::interrupt;
use poorwill_machine::paths;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Clock, PowerSupply};

use crate::demo::{
    CutOptions, DemoOptions, DomainsOptions, Figures, Screen, play, pull_the_plug, sleep_together,
};
use crate::work_folder::work_folder;

/// Show a stock Debian machine that sleeps with the power off and wakes where it was.
///
/// Boots Debian (systemd, redis, sqlite) on a fresh disk. Fills redis and tmpfs, and keeps a number
/// in a process's memory only. Suspends with `systemctl suspend`, and shows that QEMU and its RAM
/// are gone. Switches on again, compares all contents, and ends with a table of the times.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit status: 0 all contents survived, 1 failed (the console log is kept), 2 wrong usage."
)]
pub(crate) struct Demo {
    #[command(subcommand)]
    other: Option<Other>,
    /// RAM of the machine
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    memory: Bytes,
    /// MiB to put into redis, and again into tmpfs
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    data: u32,
    #[command(flatten)]
    common: Common,
}

/// The other demos.
#[derive(Subcommand, Clone, Debug)]
enum Other {
    Snapshot(Snapshot),
    Cut(Cut),
    Domains(Domains),
}

/// Let the power of a working machine fail, ten times, and resume it.
///
/// A stock kernel runs on a machine with persistent memory. redis counts and a copy runs, both in
/// tmpfs, and an NVMe disk is written and read back. The power fails at random instants. The
/// machine is cut within the hold-up, and the next power-on resumes at the same instruction. Each
/// time all contents are compared. Ends with a table of the times of Stop and Go on the modelled
/// machine.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit status: 0 each cut was resumed, 1 failed (the console log is kept), 2 wrong usage.")]
struct Cut {
    /// RAM of the machine
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    memory: Bytes,
    /// Number of power failures
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    cuts: u32,
    /// Time from the failure to the loss of power
    #[arg(long, value_name = "DURATION", default_value = "16ms", value_parser = humantime::parse_duration)]
    hold_up: Duration,
    #[command(flatten)]
    common: Common,
}

/// Let a critical guest and a stock Linux share a machine, sleep together, and wake.
///
/// The critical guest sends a CAN frame each millisecond. Linux has an NVMe disk. Each is fenced in
/// a domain of its own. The critical guest asks for a sleep, and gets it when Linux sleeps, too. A
/// byte on its serial line wakes it first, and then Linux. At last no byte comes, and the power goes
/// off: the next power-on wakes them in the same order. Each time the frames' numbers and Linux's
/// contents are compared. Ends with a table of the times.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit status: 0 no frame was lost and all contents survived, 1 failed (the console log is kept), 2
wrong usage.")]
struct Domains {
    /// RAM of each domain, a multiple of 256M
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    memory: Bytes,
    /// Number of sleeps of each kind [default: 3 with powered RAM, 1 with the power off]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    sleeps: Option<u32>,
    /// Program of the critical guest [default: build/critical.bin]
    #[arg(long, value_name = "FILE")]
    critical: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Show an appliance that wakes from its snapshot at each power-on.
///
/// The appliance is Debian with its root read-only below an overlay in memory, redis with a million
/// keys, and an HTTP service in Python. It boots cold, resumes from Linux's hibernation, and wakes
/// from a snapshot; each time the power is cut without warning. Ends with a table of the times to
/// the shell and to the service's first answer, as in Kaminaga's paper.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit status: 0 each wake was complete, 1 failed (the console log is kept), 2 wrong usage.")]
struct Snapshot {
    /// RAM of the machine
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    memory: Bytes,
    /// Number of wakes from the snapshot
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    wakes: u32,
    /// Number of cold boots, and of hibernations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    others: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Clone, Debug)]
struct Common {
    /// Number of harts
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=512))]
    harts: u32,
    #[arg(long, value_name = "FILE", help = super::FIRMWARE_HELP)]
    firmware: Option<PathBuf>,
    /// Keep the machine's disk and the console log
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.other {
            Some(Other::Snapshot(snapshot)) => return snapshot.execute(),
            Some(Other::Cut(cut)) => return cut.execute(),
            Some(Other::Domains(domains)) => return domains.execute(),
            None => {}
        }
        let figures = self.common.show(|firmware, folder, log, screen| {
            let options = DemoOptions {
                memory: self.memory,
                harts: self.common.harts,
                data_mib: self.data,
                firmware,
                folder,
                log,
            };
            play(&options, screen)
        })?;
        report(&figures);
        Ok(ExitCode::SUCCESS)
    }
}

impl Snapshot {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let figures = self.common.show(|firmware, folder, log, screen| {
            let options = ApplianceOptions {
                firmware,
                folder,
                memory: self.memory,
                harts: self.common.harts,
                for_figures: false,
                others: self.others,
                wakes: self.wakes,
                log: Some(log),
            };
            let mut figures = None;
            appliance::play(&options, screen, &mut figures)?;
            Ok(figures)
        })?;
        let figures = figures.unwrap_or_default();
        println!("\n{}", figures.table());
        println!(
            "\nEach wake loads {}. The paper's figures (Kaminaga 2006, table 1) come from another machine.",
            Bytes(figures.loaded_bytes)
        );
        if let Some(gain) = figures.gain() {
            println!(
                "The cold boot takes {gain:.1} times as long as the snapshot to the first answer."
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Cut {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let supply = PowerSupply {
            hold_up: self.hold_up,
            clock: Clock::default(),
            plugin: paths::plugin()?,
            loader: paths::loader()?,
        };
        let figures = self.common.show(|firmware, folder, log, screen| {
            let options = CutOptions {
                memory: self.memory,
                harts: self.common.harts,
                cuts: self.cuts,
                supply,
                firmware,
                folder,
                log,
            };
            pull_the_plug(&options, screen)
        })?;
        println!("\n{}", figures.table());
        println!("\nThe times are those of a machine with 0.4 GHz and 0.66 instructions a cycle.");
        Ok(ExitCode::SUCCESS)
    }
}

impl Domains {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let critical = self.critical.map_or_else(paths::critical, Ok)?;
        paths::readable("critical guest", &critical)?;
        let figures = self.common.show(|firmware, folder, log, screen| {
            let options = DomainsOptions {
                memory: self.memory,
                harts: self.common.harts,
                sleeps: self.sleeps.unwrap_or(3),
                power_offs: self.sleeps.unwrap_or(1),
                firmware,
                critical,
                folder,
                log,
            };
            sleep_together(&options, screen)
        })?;
        println!("\n{}", figures.table());
        println!("\n{}", figures.told());
        Ok(ExitCode::SUCCESS)
    }
}

impl Common {
    /// Runs a demo in a folder of its own, which is removed after it. The console's log stays if
    /// the demo fails.
    fn show<T>(
        &self,
        play: impl FnOnce(PathBuf, PathBuf, PathBuf, &Screen) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let firmware = self.firmware.clone().map_or_else(paths::firmware, Ok)?;
        paths::readable("firmware", &firmware)?;
        let folder = work_folder("demo")?;
        let log = format!("demo-{}.log", std::process::id());
        let log = folder.path().with_file_name(log);
        let screen = Screen::new();
        let outcome = play(firmware, folder.path().to_owned(), log.clone(), &screen);
        screen.finish();
        if self.keep {
            println!("\nkept {} and {}", folder.keep().display(), log.display());
        } else if outcome.is_ok() || interrupt::requested() {
            let _ = fs::remove_file(&log);
        } else if log.exists() {
            eprintln!("poorwill: the whole console is in {}", log.display());
        }
        outcome
    }
}

fn report(figures: &Figures) {
    println!("\n{}", figures.table());
    if let Some(used) = figures.used {
        println!("\nThe machine used {used} of its RAM when it went to sleep.");
    }
    let (wake, cold) = (
        figures.wake.total.as_secs_f64(),
        figures.cold_boot.total.as_secs_f64(),
    );
    println!(
        "From power-on to redis's answer: {wake:.2} s waking, {cold:.2} s booting cold ({:.1} times as long).",
        cold / wake
    );
}
