//! `poorwill bench`: measures Poorwill and its competitors.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use clap::{Args, ValueEnum};
use poorwill_bench::compare::{Comparison, QUICK, Size, USUAL, combinations};
use poorwill_bench::cut::{Assumptions, Inputs};
use poorwill_bench::report::grids;
use poorwill_bench::results::Results;
use poorwill_bench::spread::Spread;
use poorwill_bench::targets::Target;
use poorwill_bench::{BenchOptions, NotMeasured, Pair, Part, Sealing, Start, host};
use poorwill_machine::size::Bytes;
use poorwill_machine::{interrupt, paths};

use crate::progress;
use crate::work_folder::work_folder;

/// Measure the firmware and its competitors, in one run.
///
/// The parts: instructions from power-on to the next stage, compared with OpenSBI; emulated reads
/// of counters, compared with OpenSBI's; sleeps and wakes with sealed images, compared with plain ones
/// and the cipher alone; sleeps and wakes of Debian machines, compared with cold boots, Linux's
/// hibernation, QEMU's own save and restore, and plain copies; an appliance's snapshot, compared with its cold boot and hibernation; wakes of a critical
/// guest and a Linux in domains, compared with cold boots and with a Linux alone; Stop and Go of
/// machines with persistent memory, beside LightPC's figures; a weak core's instructions around a sleep,
/// by configuration and device, beside the slides' figures.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill bench --save bench.json && poorwill report bench.json
  poorwill bench compare --quick
  poorwill bench snapshot --rounds 10
  poorwill bench domains --rounds 100
  poorwill bench cut --save cut.json && poorwill report cut.json
  poorwill bench executor --save executor.json && poorwill report executor.json
  poorwill bench compare --installed 4G --used 1G,2G

If a figure cannot be measured, its reason is shown, and the others are measured.

Exit status: 0 measured, 1 a part failed or could not be measured at all, 2 wrong usage.")]
pub(crate) struct Bench {
    /// The parts to measure [default: all except snapshot, domains, cut and executor; with --quick start,
    /// instructions and compare]
    #[arg(value_name = "PART", value_enum)]
    parts: Vec<Part>,
    /// Use fewer machines and rounds, in less than five minutes
    #[arg(long)]
    quick: bool,
    /// Measurements of each figure [default: 5; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// seal: MiB of memory in use
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(16..=2048))]
    sealed: u32,
    /// compare: RAM of the machines [with --used alone: 1G,4G,8G]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    installed: Vec<Bytes>,
    /// compare: memory in use in each machine, as far as it fits [with --installed alone:
    /// 256M,512M,1G,2G,4G]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    used: Vec<Bytes>,
    /// compare, domains: harts of the machines, or of each domain
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    harts: u32,
    /// cut: nanoseconds of an access to a device's register
    #[arg(long, value_name = "NS", default_value_t = Assumptions::default().access_ns, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    access: u64,
    /// cut: change a parameter of the memory's model; the option may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    #[arg(long, value_name = "FILE", help = super::FIRMWARE_HELP)]
    firmware: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Write the figures to FILE as JSON, for `poorwill report`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Bench {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let begun = Instant::now();
        let firmware = self.firmware.clone().map_or_else(paths::firmware, Ok)?;
        paths::readable("firmware", &firmware)?;
        let parts = self.parts();
        let folder = work_folder("bench")?;
        let options = self.options(&parts, firmware, folder.path())?;
        let environment = host::environment(&options.firmware, folder.path(), self.quick)?;
        let mut results = Results::new(environment);
        let bar = progress::steps(parts.len() as u64);
        let tell = |step: &str| {
            bar.set_message(step.to_owned());
            bar.suspend(|| eprintln!("bench: {step}"));
        };
        let measured = parts.iter().try_for_each(|&part| {
            let measured = poorwill_bench::measure(&options, part, &mut results, &tell);
            if let Err(error) = measured {
                // Ctrl-C ends all parts. Another error ends only its own part.
                interrupt::check()?;
                tell(&format!("{}: not measured: {error:#}", name(part)));
                results.not_had.push(NotMeasured::new(name(part), &error));
            }
            bar.inc(1);
            Ok::<_, anyhow::Error>(())
        });
        bar.finish_and_clear();
        results.environment.seconds = begun.elapsed().as_secs_f64();
        results.environment.load_average[1] = host::load_average();
        results.conclude();
        let is_whole = measured.is_ok() && results.not_had.is_empty();
        self.show(&results, is_whole)?;
        measured.map(|()| match is_whole {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// Shows and saves the figures. A failed run's figures are valid, but must not replace an
    /// earlier run's complete ones.
    fn show(&self, results: &Results, is_whole: bool) -> anyhow::Result<()> {
        if let Some(file) = &self.save {
            let mut name = file.clone().into_os_string();
            if !is_whole {
                name.push(".partial");
            }
            results.save(name.as_ref())?;
            eprintln!("bench: the figures are in {}", name.display());
        }
        if self.json {
            print!("{}", results.to_json()?);
        } else {
            print_all(results);
        }
        Ok(())
    }

    fn parts(&self) -> Vec<Part> {
        match (&*self.parts, self.quick) {
            ([], true) => vec![
                Part::Start,
                Part::Counters,
                Part::Instructions,
                Part::Compare,
            ],
            ([], false) => vec![
                Part::Start,
                Part::Counters,
                Part::Instructions,
                Part::Seal,
                Part::Compare,
            ],
            (named, _) => named.to_vec(),
        }
    }

    /// Checks the inputs first, so that a missing one is reported before minutes are spent.
    fn options(
        &self,
        parts: &[Part],
        firmware: PathBuf,
        folder: &Path,
    ) -> anyhow::Result<BenchOptions> {
        let assumed = Assumptions {
            access_ns: self.access,
            parameters: self.set.clone(),
        };
        assumed.check()?;
        let any = |wanted: &[Part]| parts.iter().any(|part| wanted.contains(part));
        if any(&[Part::Start, Part::Counters]) {
            paths::readable("OpenSBI", poorwill_bench::OPENSBI.as_ref())?;
        }
        if any(&[Part::Compare, Part::Snapshot, Part::Domains]) {
            paths::Guest::find(paths::Kernel::Stock)?;
        }
        let test_kernel = match any(&[Part::Seal, Part::Instructions]) {
            true => paths::test_kernel()?,
            false => PathBuf::new(),
        };
        if any(&[Part::Executor]) {
            paths::Tiny::find(paths::Kernel::Stock)?;
            if !self.quick {
                paths::plugin()?;
            }
        }
        if any(&[Part::Cut]) {
            Inputs::find(firmware.clone(), folder.to_owned())?;
        }
        let critical = match any(&[Part::Domains]) {
            true => paths::critical()?,
            false => PathBuf::new(),
        };
        Ok(BenchOptions {
            assumed,
            critical,
            firmware,
            folder: folder.to_owned(),
            rounds: self.rounds.unwrap_or(if self.quick { 3 } else { 5 }),
            quick: self.quick,
            test_kernel,
            sealed_mib: self.sealed,
            sizes: self.sizes()?,
            harts: self.harts,
        })
    }

    fn sizes(&self) -> anyhow::Result<Vec<Size>> {
        if self.installed.is_empty() && self.used.is_empty() {
            let usual: &[Size] = if self.quick { &QUICK } else { &USUAL };
            return Ok(usual.to_vec());
        }
        let chosen = |given: &[Bytes], others: &[u64]| match given {
            [] => others.to_vec(),
            given => given.iter().map(|size| size.in_mib()).collect(),
        };
        let installed = chosen(&self.installed, &[1024, 4096, 8192]);
        let used = chosen(&self.used, &[256, 512, 1024, 2048, 4096]);
        let sizes = combinations(&installed, &used);
        if sizes.is_empty() {
            bail!("no machine of --installed has room for --used and a kernel");
        }
        Ok(sizes)
    }
}

/// The command-line name of a part.
fn name(part: Part) -> String {
    let value = part.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn print_all(results: &Results) {
    if !results.start.is_empty() {
        print_starts(&results.start);
    }
    if !results.seal.is_empty() {
        print_sealing(&results.seal);
    }
    for grid in grids(results) {
        println!("{}:\n{}", grid.title, grid.text());
    }
    if let Some(compare) = &results.compare {
        print_gaps(compare);
    }
    for not_had in &results.not_had {
        println!("{not_had}");
    }
    for target in &results.targets {
        print_target(target);
    }
}

/// Prints the reasons of the figures that the tables lack.
fn print_gaps(compare: &Comparison) {
    for case in &compare.cases {
        for not_had in &case.not_had {
            println!("  {}, {not_had}", case.name());
        }
    }
    for reason in &compare.left_out {
        println!("  left out: {reason}");
    }
}

fn print_target(target: &Target) {
    let verdict = target.verdict().text();
    let worst = target.worst().map_or("not measured".into(), |worst| {
        format!("{}, {}", worst.text(), worst.case)
    });
    println!(
        "{verdict:>7}: {}: {worst}; {}",
        target.what,
        target.limit.text()
    );
}

fn print_starts(starts: &[Start]) {
    println!("Instructions from power-on to the next stage:");
    for start in starts {
        println!(
            "  {:?}, {} harts: Poorwill {:>9}, OpenSBI {:>9}, ratio {:.2}",
            start.interrupts,
            start.harts,
            start.poorwill,
            start.opensbi,
            start.ratio()
        );
    }
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
