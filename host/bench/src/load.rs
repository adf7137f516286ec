//! Compares the bandwidth of a wake's load with that of a plain read of the same bytes from the
//! same NVMe disk. Linux makes the plain read right after each wake: direct I/O by fio, 16 requests of 1
//! MiB at a time.

use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::console::Fields;
use poorwill_machine::disk::NewDisk;
use poorwill_machine::paths::{Guest, Kernel};
use poorwill_machine::size::Bytes;
use poorwill_machine::{DEBIAN_COMMAND_LINE, Disk, Machine, PowerOn, Qemu};
use serde::{Deserialize, Serialize};

use crate::BenchOptions;
use crate::spread::median;

/// QEMU's exit status when the guest is done (see `guest/overlay`).
const DONE: i32 = 42;

/// A sleep, its wake, and the plain read after it. Times are by the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRound {
    /// Bytes of page data that the wake loaded.
    pub loaded_bytes: u64,
    /// The firmware's figure `load_ms`.
    pub load_ms: u64,
    /// Bytes that Linux then read.
    pub read_bytes: u64,
    pub read_ms: u64,
}

impl LoadRound {
    /// The load's bandwidth, divided by the plain read's.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        bandwidth(self.loaded_bytes, at_least_one(self.load_ms))
            / bandwidth(self.read_bytes, at_least_one(self.read_ms))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    pub rounds: Vec<LoadRound>,
}

impl Load {
    /// The median of the rounds' ratios.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        median(self.rounds.iter().map(LoadRound::ratio).collect())
    }
}

/// The bandwidth in MB/s.
#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
pub(super) fn bandwidth(bytes: u64, milliseconds: f64) -> f64 {
    bytes as f64 / 1000.0 / milliseconds
}

/// At least 1: the machine's clock shows a shorter time than a millisecond as 0.
#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
fn at_least_one(milliseconds: u64) -> f64 {
    milliseconds.max(1) as f64
}

pub(super) fn measure(options: &BenchOptions, tell: &dyn Fn(&str)) -> anyhow::Result<Load> {
    let guest = Guest::find(Kernel::Stock)?;
    let qemu = Qemu::find()?;
    let disk = options.folder.join("bench.disk");
    let new = NewDisk {
        root: Some(guest.root.clone()),
        swap: None,
        areas: vec![Bytes::gib(3)],
    };
    new.create(&disk, false, &indicatif::ProgressBar::hidden())?;
    let mut machine = Machine::new(&options.firmware);
    machine.memory = Bytes::gib(1);
    machine.kernel = Some(guest.kernel);
    machine.initrd = Some(guest.initrd);
    machine.disks = vec![Disk::nvme(disk)];
    machine.command_line = format!(
        "{DEBIAN_COMMAND_LINE} init=/usr/local/lib/poorwill/bench \
         poorwill.bench_mib={} poorwill.bench_rounds={}",
        options.data_mib, options.rounds
    );
    let machine = machine.for_figures();
    let mut rounds = Vec::new();
    for power_on in 0..=options.rounds {
        let mut running = machine.power_on(&qemu, PowerOn::default())?;
        let exit = running.wait_exit(Duration::from_secs(300));
        let tail = || running.tail(15).join("\n");
        let exit = exit.with_context(|| format!("the console's end:\n{}", tail()))?;
        if let Some(round) = round(
            &running
                .lines()
                .iter()
                .map(|line| &*line.text)
                .collect::<Vec<_>>(),
        ) {
            let done = bandwidth(round.loaded_bytes, at_least_one(round.load_ms));
            tell(&format!(
                "round {power_on}: loaded at {done:.0} MB/s, {:.2} of a plain read",
                round.ratio()
            ));
            rounds.push(round);
        }
        match exit.status.code() {
            Some(0) => {}
            Some(DONE) if !rounds.is_empty() => return Ok(Load { rounds }),
            _ => bail!(
                "the guest failed ({}); the console's end:\n{}",
                exit.status,
                tail()
            ),
        }
    }
    bail!("the guest slept more often than it should")
}

/// The round that a power-on's console shows; `None`: it was a cold boot.
fn round(lines: &[&str]) -> Option<LoadRound> {
    let fields = |prefix| lines.iter().find_map(|line| Fields::parse(line, prefix));
    let wake = fields("poorwill: wake ")?;
    let read = fields("poorwill-bench: ")?;
    Some(LoadRound {
        loaded_bytes: wake.number("loaded_bytes")?,
        load_ms: wake.number("load_ms")?,
        read_bytes: read.number("read_bytes")?,
        read_ms: read.number("read_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_read_off_the_console() {
        let woken = [
            "poorwill: wake loaded_bytes=2000000 ms=30 load_ms=20",
            "poorwill-bench: read_bytes=1000000 read_ms=5",
        ];
        let round = round(&woken).unwrap();
        assert_eq!(round.load_ms, 20);
        assert!((round.ratio() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_cold_boot_has_no_round() {
        assert_eq!(round(&["poorwill: cold boot: no image"]), None);
    }
}
