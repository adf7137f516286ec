//! `poorwill bench`: measurements beside their limits.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::bench::{Bench as Figures, BenchOptions};
use crate::paths;

/// Measure the firmware beside what bounds it, in one run.
///
/// Instructions from power-on to the next stage, beside OpenSBI's; the bandwidth
/// of a wake's loading, beside a plain read of the same bytes from the same disk.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 measured, 1 failed, 2 wrong usage.")]
pub struct Bench {
    /// How often the machine sleeps and wakes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// MiB of random bytes in its memory
    #[arg(long, value_name = "MIB", default_value_t = 384, value_parser = clap::value_parser!(u32).range(16..=640))]
    data: u32,
    #[arg(long, value_name = "FILE", help = paths::FIRMWARE_HELP)]
    firmware: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

impl Bench {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let firmware = self.firmware.map_or_else(paths::firmware, Ok)?;
        paths::readable("firmware", &firmware)?;
        paths::readable("OpenSBI", crate::bench::OPENSBI.as_ref())?;
        let cache = paths::cache()?;
        std::fs::create_dir_all(&cache)?;
        let folder = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&cache)?;
        let options = BenchOptions {
            firmware,
            folder: folder.path().to_owned(),
            rounds: self.rounds,
            data_mib: self.data,
        };
        let figures = Figures::run(&options, &|step| eprintln!("bench: {step}"))?;
        if self.json {
            println!("{:#}", figures.to_json());
        } else {
            print(&figures);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(figures: &Figures) {
    println!("Instructions from power-on to the next stage:");
    for start in &figures.starts {
        println!(
            "  {:?}, {} hart(s): Poorwill {:>9}, OpenSBI {:>9}, ratio {:.2}",
            start.interrupts,
            start.harts,
            start.poorwill,
            start.opensbi,
            start.ratio()
        );
    }
    println!("Loading at a wake, in a plain read of the same disk (1 is the limit):");
    for round in &figures.load.rounds {
        println!(
            "  {:>4} MB in {:>4} ms, read {:>4} MB in {:>4} ms, ratio {:.2}",
            round.loaded_bytes / 1_000_000,
            round.load_ms,
            round.read_bytes / 1_000_000,
            round.read_ms,
            round.ratio()
        );
    }
    println!("  median ratio {:.2}", figures.load.ratio());
}
