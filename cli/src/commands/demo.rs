//! `poorwill demo`: the main job, shown and measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::demo::{DemoOptions, Figures, Screen, play};
use crate::interrupt;
use crate::paths;
use crate::size::Bytes;

/// Show a stock Debian machine sleep with the power off and wake where it was.
///
/// Boots Debian (systemd, redis, sqlite) on a fresh disk, fills redis and tmpfs,
/// keeps a number in a process's memory only, suspends with `systemctl suspend`,
/// shows that QEMU and its RAM are gone, switches on again, compares everything,
/// and ends with a table of where the time went.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit status: 0 all was there again, 1 failed (the console log is kept), 2 wrong usage.")]
pub struct Demo {
    /// RAM of the machine
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    memory: Bytes,
    /// Number of harts
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=512))]
    harts: u32,
    /// MiB to put into redis, and as many into tmpfs
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    data: u32,
    #[arg(long, value_name = "FILE", help = paths::FIRMWARE_HELP)]
    firmware: Option<PathBuf>,
    /// Keep the machine's disk and the console log
    #[arg(long)]
    keep: bool,
}

impl Demo {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The step that failed.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let firmware = self.firmware.map_or_else(paths::firmware, Ok)?;
        paths::readable("firmware", &firmware)?;
        let cache = paths::cache()?;
        fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
        remove_left_over(&cache);
        let id = std::process::id();
        let folder = tempfile::Builder::new()
            .prefix(&format!("demo-{id}-"))
            .tempdir_in(&cache)?;
        let log = cache.join(format!("demo-{id}.log"));
        let options = DemoOptions {
            memory: self.memory,
            harts: self.harts,
            data_mib: self.data,
            firmware,
            folder: folder.path().to_owned(),
            log: log.clone(),
        };
        let screen = Screen::new();
        let outcome = play(&options, &screen);
        screen.finish();
        if self.keep {
            println!("\nkept {} and {}", folder.keep().display(), log.display());
        } else if outcome.is_ok() || interrupt::requested() {
            let _ = fs::remove_file(&log);
        } else if log.exists() {
            eprintln!("poorwill: the whole console is in {}", log.display());
        }
        report(&outcome?);
        Ok(ExitCode::SUCCESS)
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
        "From power-on to redis's answer: {wake:.2} s waking, {cold:.2} s cold, {:.1} times as long.",
        cold / wake
    );
}

/// Removes what demos that were killed have left.
fn remove_left_over(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            name.strip_prefix("demo-")?
                .split_once('-')?
                .0
                .parse::<u32>()
                .ok()
        });
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
