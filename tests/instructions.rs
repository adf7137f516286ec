//! `cargo test -p poorwill-tests --test instructions`: the performance gate. The
//! firmware's instructions for a start, a sleep and a wake, beside a baseline:
//! 10 % more fails. See `docs/testing.md`.

use std::path::Path;

use anyhow::{Context, ensure};
use poorwill::bench::BenchOptions;
use poorwill::bench::instructions::{Baseline, again, measure};
use poorwill::bench::results::write_whole;
use poorwill::machine::Qemu;
use poorwill::{interrupt, paths};
use poorwill_tests::Setup;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

/// How often is counted again what seems worse: the host may have kept the disk
/// waiting each time. Code that is worse stays so.
const RETRIES: u32 = 3;

fn main() -> anyhow::Result<()> {
    let is_set = |name| std::env::var(name).is_ok_and(|set| set == "1");
    // cargo asks every test for its list, which is one of one.
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
    let tell = |step: &str| eprintln!("{step}");
    let mut counts = measure(&options, &tell)?;
    let file = Path::new(BASELINE);
    if is_set("POORWILL_NEW_BASELINE") {
        let baseline = Baseline::of(&counts, Qemu::find()?.version.to_string());
        let text = serde_json::to_string_pretty(&baseline)? + "\n";
        write_whole(file, text.as_bytes()).context("writing the baseline")?;
        println!("the baseline is now what was counted: {}", file.display());
        return Ok(());
    }
    let baseline = Baseline::read(file)?;
    let (mut lines, mut worse) = baseline.compare(&counts);
    for _ in 0..RETRIES {
        if !worse {
            break;
        }
        eprintln!("more than the baseline: counting again");
        counts = again(&counts, measure(&options, &tell)?);
        (lines, worse) = baseline.compare(&counts);
    }
    lines.iter().for_each(|line| println!("{line}"));
    ensure!(
        !worse,
        "the firmware takes more instructions than it did (counted with QEMU {}, the baseline \
         with {}); if that is meant, run `make perf-baseline`",
        Qemu::find()?.version,
        baseline.qemu
    );
    println!("test instructions ... ok");
    Ok(())
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
        firmware,
        folder: folder.path().to_owned(),
        rounds: 1,
        quick: false,
        data_mib: 0,
        test_kernel,
        sealed_mib: 0,
        sizes: Vec::new(),
        harts: 1,
    };
    Ok((options, folder))
}
