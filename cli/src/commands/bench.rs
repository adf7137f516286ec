//! `poorwill bench`: measurements beside their limits.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::bench::{Bench as Figures, BenchOptions, Load, Pair, Part, Sealing, Spread, Start};
use crate::paths;

/// Measure the firmware beside what bounds it, in one run.
///
/// Instructions from power-on to the next stage, beside OpenSBI's; the bandwidth
/// of a wake's loading, beside a plain read of the same bytes from the same disk;
/// sleeps and wakes with sealed images, beside plain ones and the cipher alone.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 measured, 1 failed, 2 wrong usage.")]
pub struct Bench {
    /// What to measure [default: all of it]
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// How often the machine sleeps and wakes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// MiB of random bytes in its memory
    #[arg(long, value_name = "MIB", default_value_t = 384, value_parser = clap::value_parser!(u32).range(16..=640))]
    data: u32,
    /// MiB of its memory in use where sealing is measured
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(16..=2048))]
    sealed: u32,
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
        let mut parts = self.parts;
        if parts.is_empty() {
            parts = vec![Part::Start, Part::Load, Part::Seal];
        }
        // Known before the first minutes are spent.
        if parts.contains(&Part::Start) {
            paths::readable("OpenSBI", crate::bench::OPENSBI.as_ref())?;
        }
        let test_kernel = match parts.contains(&Part::Seal) {
            true => paths::test_kernel()?,
            false => PathBuf::new(),
        };
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
            test_kernel,
            sealed_mib: self.sealed,
        };
        let figures = Figures::run(&options, &parts, &|step| eprintln!("bench: {step}"))?;
        if self.json {
            println!("{:#}", figures.to_json());
        } else {
            print(&figures);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(figures: &Figures) {
    if !figures.starts.is_empty() {
        print_starts(&figures.starts);
    }
    if let Some(load) = &figures.load {
        print_load(load);
    }
    if !figures.sealing.is_empty() {
        print_sealing(&figures.sealing);
    }
}

fn print_starts(starts: &[Start]) {
    println!("Instructions from power-on to the next stage:");
    for start in starts {
        println!(
            "  {:?}, {} hart(s): Poorwill {:>9}, OpenSBI {:>9}, ratio {:.2}",
            start.interrupts,
            start.harts,
            start.poorwill,
            start.opensbi,
            start.ratio()
        );
    }
}

fn print_load(load: &Load) {
    println!("Loading at a wake, in a plain read of the same disk (1 is the limit):");
    for round in &load.rounds {
        println!(
            "  {:>4} MB in {:>4} ms, read {:>4} MB in {:>4} ms, ratio {:.2}",
            round.loaded_bytes / 1_000_000,
            round.load_ms,
            round.read_bytes / 1_000_000,
            round.read_ms,
            round.ratio()
        );
    }
    println!("  median ratio {:.2}", load.ratio());
}

fn print_sealing(sealing: &[Sealing]) {
    println!("Sealing, for each GiB, medians with the least and the most:");
    println!(
        "{:18} {:>26} {:>26} {:>8} {:>22}",
        "", "plain, ms", "sealed, ms", "ratio", "instructions"
    );
    for one in sealing {
        let harts = match one.harts {
            1 => "1 hart".to_owned(),
            more => format!("{more} harts"),
        };
        print_row(&format!("{harts}, sleep"), one, |pair| {
            (pair.plain.sleep_per_gib(), pair.sealed.sleep_per_gib())
        });
        print_row(&format!("{harts}, loading"), one, |pair| {
            (pair.plain.load_per_gib(), pair.sealed.load_per_gib())
        });
        print_cipher(one);
    }
}

fn print_row(name: &str, sealing: &Sealing, figure: impl Fn(&Pair) -> (f64, f64)) {
    let plain = sealing.spread(|pair| figure(pair).0 / 1000.0);
    let sealed = sealing.spread(|pair| figure(pair).1 / 1000.0);
    let ratio = sealing.spread(|pair| figure(pair).1 / figure(pair).0);
    let (few, many) = figure(&sealing.counted);
    println!(
        "  {name:16} {:>26} {:>26} {:>8.2} {:>10.2} G -> {:.2} G",
        text(plain),
        text(sealed),
        ratio.median,
        few / 1e6,
        many / 1e6
    );
}

fn print_cipher(sealing: &Sealing) {
    let alone = sealing.spread(|pair| pair.sealed.cipher_per_gib() / 1000.0);
    let ratio = sealing.spread(Pair::cipher_ratio);
    let counted = sealing.counted;
    println!(
        "    cipher alone {} ms, {:.2} G instructions; sealed loading at {:.2} of it \
         ({:.2} to {:.2}), by instructions {:.2}",
        text(alone),
        counted.sealed.cipher_per_gib() / 1e6,
        ratio.median,
        ratio.least,
        ratio.most,
        counted.cipher_ratio()
    );
}

fn text(spread: Spread) -> String {
    let Spread {
        median,
        least,
        most,
    } = spread;
    format!("{median:.0} ({least:.0} to {most:.0})")
}
