//! `poorwill trace` on a stock kernel: a short trace of a program is recorded twice, and both have the
//! same bytes. `poorwill memory` runs it. Stop and Go are traced, too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use poorwill_bench::cut::{
    self, Assumptions, CutOptions, Inputs, Load, MOST_GO, MOST_STOP, Subject,
};
use poorwill_machine::{Qemu, paths};
use serde_json::Value;
use tempfile::TempDir;

/// Harts of the machine: several, whose order must repeat, too.
const HARTS: u64 = 8;

/// Instructions of the busiest hart before the window, and in it.
const SKIP: u64 = 2_000_000;
const WINDOW: u64 = 3_000_000;

/// The command, with a cache of its own that has the guest.
struct World {
    command: PathBuf,
    firmware: PathBuf,
    plugin: PathBuf,
    cache: TempDir,
}

impl World {
    fn find() -> anyhow::Result<Self> {
        let command = poorwill_tests::command()?;
        Qemu::find()?;
        let guest = paths::Tiny::for_traces()?;
        let cache = tempfile::tempdir()?;
        let folder = guest.kernel.parent().context("a folder")?;
        symlink(folder, cache.path().join("guest"))?;
        Ok(World {
            command,
            firmware: paths::firmware()?,
            plugin: paths::plugin()?,
            cache,
        })
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.command)
            .args(arguments)
            .env("POORWILL_CACHE", self.cache.path())
            .env("POORWILL_FIRMWARE", &self.firmware)
            .env("POORWILL_PLUGIN", &self.plugin)
            .output()?;
        ensure!(output.status.success(), "{arguments:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Records the trace, and returns its bytes.
    fn record(&self) -> anyhow::Result<Vec<u8>> {
        let [harts, skip, window] = [HARTS, SKIP, WINDOW].map(|number| number.to_string());
        let of = ["trace", "record", "sha512", "--harts", &harts];
        let words = [&of[..], &["--skip", &skip, "--instructions", &window]].concat();
        self.run(&words)?;
        let file = self
            .cache
            .path()
            .join(format!("traces/sha512-{HARTS}.trace"));
        Ok(fs::read(file)?)
    }

    fn compare(&self) -> anyhow::Result<()> {
        let first = self.record()?;
        ensure!(self.record()? == first, "the second trace differs");
        let name = format!("sha512-{HARTS}");
        let shown: Value = serde_json::from_str(&self.run(&["trace", "show", &name, "--json"])?)?;
        let harts = shown["harts"].as_array().context("harts")?;
        let executed = |hart: &Value| hart["instructions"].as_u64();
        let busiest = harts.iter().filter_map(executed).max();
        let busiest = busiest.context("instructions")?;
        // The window ends with one of the time base, after a block.
        ensure!(
            (WINDOW..WINDOW + 2000).contains(&busiest),
            "the busiest hart executed {busiest} instructions"
        );
        let kinds = &shown["kinds"];
        let count = |kind: &str| kinds[kind].as_u64().context("a kind");
        let reads = count("load_misses")? + count("store_misses")? + count("fetch_misses")?;
        let writes = count("write_backs")? + count("flushes")?;
        ensure!(count("load_misses")? > 0 && writes > 0, "{kinds}");
        let run: Value = serde_json::from_str(&self.run(&["memory", &name, "--json"])?)?;
        let machines = run[0]["machines"].as_array().context("machines")?;
        ensure!(machines.len() == 2, "{run}");
        for machine in machines {
            ensure!(
                machine["reads"] == reads && machine["writes"] == writes,
                "requests are lost: {machine}, of {kinds}"
            );
            let cycles = machine["cycles"].as_u64().context("cycles")?;
            ensure!(cycles > busiest, "{machine}");
        }
        Ok(())
    }
}

/// Two processes of a stand-in share their work evenly, and no other task runs on their harts: the
/// kernel's tests of its ciphers once took three quarters of the window.
fn harts_are_balanced(world: &World) -> anyhow::Result<()> {
    let words = ["trace", "record", "streamcopy", "--harts", "2"];
    let size = ["--skip", "2000000", "--instructions", "5000000"];
    world.run(&[&words[..], &size].concat())?;
    let shown = world.run(&["trace", "show", "streamcopy-2", "--json"])?;
    let shown: Value = serde_json::from_str(&shown)?;
    let harts = shown["harts"].as_array().context("harts")?;
    for hart in harts {
        let [instructions, stores] =
            ["instructions", "stores"].map(|name| hart[name].as_u64().unwrap_or_default());
        // The loop takes eight instructions for a number.
        ensure!(
            stores * 9 > instructions && instructions > 4_900_000,
            "a hart waits, or does other work: {harts:?}"
        );
    }
    ensure!(harts.len() == 2, "{shown}");
    Ok(())
}

#[test]
fn a_trace_repeats_and_runs() {
    // Archives drop a package after some months.
    let manifest = paths::Guest::manifest();
    if manifest.is_some_and(|manifest| !manifest.workloads.contains_key("openssl")) {
        eprintln!("skipped: the guest was built without OpenSSL");
        return;
    }
    match World::find() {
        Ok(world) => {
            world.compare().unwrap();
            harts_are_balanced(&world).unwrap();
        }
        Err(error) if std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1") => {
            panic!("{error:#}");
        }
        Err(error) => eprintln!("skipped: {error:#}"),
    }
}

/// Two cuts of one machine take the same time on the model, and neither takes more than a board allows.
#[test]
fn stop_and_go_are_traced() -> anyhow::Result<()> {
    let firmware = paths::firmware()?;
    let folder = tempfile::tempdir()?;
    let options = CutOptions {
        inputs: Inputs::find(firmware, folder.path().to_owned())?,
        subjects: vec![Subject::new(2, Load::Idle)],
        assumed: Assumptions::default(),
    };
    let mut results = None;
    cut::measure(&options, &mut results, &|_| ())?;
    let results = results.context("results")?;
    let measured = results.machines.first().context("a machine")?;
    let [one, other] = &measured.cuts[..] else {
        anyhow::bail!("{measured:?}");
    };
    ensure!(one == other, "{one:?} {other:?}");
    for (phase, least, most) in [(one.stop, 50_000, MOST_STOP), (one.go, 500_000, MOST_GO)] {
        ensure!((least..=most).contains(&phase.instructions), "{phase:?}");
        // An instruction takes a cycle at least. Memory has its share, and the caches keep it small.
        let per_cycle = phase.per_cycle();
        ensure!((0.2..1.0).contains(&per_cycle), "{per_cycle}: {phase:?}");
        ensure!(phase.settled_ns >= phase.time_ns, "{phase:?}");
    }
    // Each hart writes its part of the record: five pages at most, and at least a line of each.
    ensure!(one.stop.writes > 100, "{one:?}");
    ensure!(
        one.accesses > 0 && one.stop_ns() > one.stop.settled_ns,
        "{one:?}"
    );
    ensure!(
        0 < one.after_ticks && one.after_ticks < one.ticks,
        "{one:?}"
    );
    Ok(())
}
