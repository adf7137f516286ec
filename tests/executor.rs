//! `poorwill bench executor` in short, on a stock kernel: its figures are whole, and `poorwill energy
//! --day` takes its ratio.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use poorwill_bench::executor::{Case, Executor, Half, Part};
use poorwill_bench::results::Results;
use tempfile::TempDir;

const DAY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../host/bench/src/energy/smartwatch.toml"
);

/// Runs the command in a folder. Returns its output.
fn run(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let command = poorwill_tests::command()?;
    let output = Command::new(command)
        .args(arguments)
        .current_dir(folder)
        .env("POORWILL_FIRMWARE", poorwill_machine::paths::firmware()?)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{arguments:?}: {text}\n{errors}");
    Ok(text)
}

#[test]
#[ignore = "takes 40 core-seconds: make test-long"]
fn a_short_bench_has_halves_times_and_a_ratio() -> anyhow::Result<()> {
    let folder = TempDir::new()?;
    let at = |name: &str| folder.path().join(name);
    let bench = ["bench", "executor", "--quick", "--rounds", "1"];
    let said = run(
        folder.path(),
        &[&bench[..], &["--save", "executor.json"]].concat(),
    )?;
    ensure!(said.contains("slides, Nexus 5"), "{said}");
    let results = Results::read(&at("executor.json"))?;
    let executor = results.executor.context("a weak core's figures")?;
    check(&executor)?;
    run(
        folder.path(),
        &["report", "executor.json", "-o", "report.html"],
    )?;
    let page = fs::read_to_string(at("report.html"))?;
    ensure!(
        page.contains("1 hart, devices"),
        "the report has no weak core"
    );
    let day = ["energy", "--day", DAY, "--measured", "executor.json"];
    let day = run(folder.path(), &day)?;
    let (_, ratio) = executor.ratio().context("a ratio")?;
    ensure!(
        day.contains("1 hart, devices: executor.json"),
        "{ratio}: {day}"
    );
    Ok(())
}

fn check(executor: &Executor) -> anyhow::Result<()> {
    ensure!(executor.kernel.starts_with("6."), "{:?}", executor.kernel);
    ensure!(executor.cases.len() == 2, "{:?}", executor.cases);
    for case in &executor.cases {
        check_case(case)?;
    }
    let accesses = |case: &Case| {
        case.warm_median(Part::Both, |half| {
            f64::from(u32::try_from(half.mmio).unwrap_or(u32::MAX))
        })
    };
    let [plain, devices] = [0, 1].map(|at| accesses(&executor.cases[at]).unwrap_or_default());
    ensure!(plain > 0.0 && devices > 2.0 * plain, "{plain} {devices}");
    let [off, on] = &executor.times[..] else {
        anyhow::bail!("{:?}", executor.times);
    };
    ensure!(!off.is_on && on.is_on);
    for times in [off, on] {
        for driver in ["nvme ", "e1000e ", "sd "] {
            let device = times
                .devices
                .iter()
                .find(|device| device.name.starts_with(driver));
            let device = device.with_context(|| format!("no {driver}: {times:?}"))?;
            ensure!(device.suspend_us > 0.0, "{device:?}");
        }
        let [suspend, resume] = ["suspend", "resume"].map(|half| times.sum_ms(half));
        ensure!(suspend > 1.0 && resume > 1.0, "{times:?}");
    }
    // The weak core waits for the same devices, and is slower besides.
    let resumes = [on, off].map(|times| times.sum_ms("resume"));
    ensure!(resumes[0] > resumes[1], "{resumes:?}");
    Ok(())
}

fn check_case(case: &Case) -> anyhow::Result<()> {
    let halves = [("sleep", &case.suspend), ("user", &case.resume)];
    for (end, halves) in halves {
        let is_whole = |half: &Half| {
            half.end == end
                && half.instructions > 100_000
                && half.own > half.instructions
                && half.translated > half.instructions / 2
        };
        ensure!(
            halves.len() > 2 && halves.iter().all(is_whole),
            "{halves:?}"
        );
    }
    let ratio = case.warm_ratio(Part::Both).context("a ratio")?;
    let first = case.first_ratio(Part::Both).context("a first ratio")?;
    ensure!(ratio > 1.0 && first > 1.0, "{ratio} {first}");
    Ok(())
}
