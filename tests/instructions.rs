//! `cargo test -p poorwill-tests --test instructions`: the performance gate. It compares the
//! firmware's instructions for starts, sleeps and wakes with another firmware's (`POORWILL_BASE`).
//! Both are counted in turns, with the same guest on the same host. See `docs/testing.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use poorwill_bench::BenchOptions;
use poorwill_bench::instructions::{Beside, Counter, Counts};
use poorwill_bench::irqs_off::{self, MOST};
use poorwill_machine::{interrupt, paths};
use poorwill_tests::{Setup, number};

/// Counts of each firmware, unless `POORWILL_ROUNDS` gives another number.
const ROUNDS: usize = 5;

/// Number of intervals with interrupts off that are shown.
const SHOWN: usize = 12;

fn main() -> anyhow::Result<()> {
    let is_set = |name| std::env::var(name).is_ok_and(|set| set == "1");
    // cargo asks each test program for a list of its tests. This one has one test.
    if std::env::args().any(|word| word == "--list") {
        println!("instructions: test");
        return Ok(());
    }
    interrupt::install()?;
    let (options, _folder) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) if !is_set("POORWILL_STRICT") => {
            println!("test instructions ... ignored ({error:#})");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    irqs_off(&options)?;
    match std::env::var_os("POORWILL_BASE").filter(|base| !base.is_empty()) {
        Some(base) => {
            let rounds = number("POORWILL_ROUNDS")?.unwrap_or(ROUNDS);
            compare(&options, &PathBuf::from(base), rounds)?;
        }
        None => count(&options)?,
    }
    println!("test instructions ... ok");
    Ok(())
}

/// Shows the longest intervals in which machine mode runs with its interrupts off, and checks them.
fn irqs_off(options: &BenchOptions) -> anyhow::Result<()> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/poorwill-irqs-off.elf");
    let build = build.canonicalize().context("`make irqs-off`")?;
    let all = irqs_off::measure(options, &build)?;
    println!("longest with interrupts off, of at most {MOST} instructions:");
    for one in all.iter().take(SHOWN) {
        println!("{:>9}  {} to {}", one.instructions, one.from, one.to);
    }
    let longest = all.first().context("the firmware printed no interval")?;
    ensure!(
        longest.instructions <= MOST,
        "interrupts are off for {} instructions from {} on",
        longest.instructions,
        longest.from
    );
    Ok(())
}

/// Without a base there is no comparison, but the counting itself must work.
fn count(options: &BenchOptions) -> anyhow::Result<()> {
    let mut now = Counts::default();
    Counter::new(options)?.count(&options.firmware, &mut now)?;
    for count in now.all() {
        println!("{}: {}, beside nothing", count.name, count.instructions);
    }
    Ok(())
}

fn compare(options: &BenchOptions, base: &Path, rounds: usize) -> anyhow::Result<()> {
    let mut counter = Counter::new(options)?;
    let (mut before, mut now) = (Counts::default(), Counts::default());
    for round in 1..=rounds {
        eprintln!("counting instructions, round {round} of {rounds}");
        counter.count_other(base, &mut before)?;
        counter.count(&options.firmware, &mut now)?;
    }
    let pairs = now.beside(&before);
    show(&pairs);
    for (name, why) in before.failed() {
        println!("{name}: not compared, since the base firmware failed: {why}");
    }
    let worse: Vec<_> = pairs.iter().filter(|pair| pair.is_worse()).collect();
    ensure!(
        worse.is_empty(),
        "the firmware takes more instructions than its base: {}",
        (worse.iter().map(|pair| pair.name.as_str()))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(())
}

/// Prints the least counts, and for each the distance to its greatest in per cent.
fn show(pairs: &[Beside]) {
    println!(
        "{:18} {:>11} {:>11} {:>8} {:>6}   spread of each, %",
        "", "base", "now", "ratio", "limit"
    );
    for pair in pairs {
        println!(
            "{:18} {:>11} {:>11} {:>8.4} {:>6.2}   {:.2} {:.2}{}",
            pair.name,
            pair.base.0,
            pair.now.0,
            pair.ratio(),
            pair.limit(),
            spread(pair.base),
            spread(pair.now),
            if pair.is_worse() { "   WORSE" } else { "" }
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to two digits")]
fn spread((least, most): (u64, u64)) -> f64 {
    (most - least) as f64 / least as f64 * 100.0
}

fn prepare() -> anyhow::Result<(BenchOptions, tempfile::TempDir)> {
    let setup = Setup::find();
    setup.qemu.map_err(anyhow::Error::msg)?;
    let test_kernel = setup.kernel.map_err(anyhow::Error::msg)?;
    let firmware = setup.firmware.map_err(anyhow::Error::msg)?;
    let cache = paths::cache()?;
    std::fs::create_dir_all(&cache)?;
    let folder = tempfile::Builder::new()
        .prefix("perf-")
        .tempdir_in(&cache)?;
    let options = BenchOptions {
        assumed: poorwill_bench::cut::Assumptions::default(),
        firmware,
        folder: folder.path().to_owned(),
        rounds: 1,
        quick: false,
        test_kernel,
        critical: PathBuf::new(),
        sealed_mib: 0,
        sizes: Vec::new(),
        harts: 1,
    };
    Ok((options, folder))
}
