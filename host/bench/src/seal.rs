//! Measures the cost of sealing. The same machine with the same memory sleeps and wakes in turns
//! plain and sealed. After each wake its harts run the cipher alone, over the pieces that were
//! loaded.
//!
//! The guest is the test kernel. Times are by the machine's clock. Instructions are counted with
//! QEMU's `-icount`, under which each instruction of any hart advances the machine's clock by one
//! nanosecond.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use poorwill_machine::console::Fields;
use poorwill_machine::disk::NewDisk;
use poorwill_machine::flash::Flash;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Disk, Machine, PowerOn, Qemu};
use serde::{Deserialize, Serialize};

use crate::BenchOptions;
use crate::compare::rate;
use crate::spread::Spread;

/// The machines' numbers of harts.
const HARTS: [u32; 3] = [1, 2, 4];

/// The most rounds for each number of harts. Under emulation the cipher is slow, and its times vary
/// less than a disk's.
const MAX_ROUNDS: u32 = 3;

/// MiB of memory in use when instructions are counted. That is slow, and the counts are the same
/// each time.
const COUNTED_MIB: u32 = 32;

/// MiB beside the filled memory: the firmware's, the kernel's, and some zeros.
const OTHER_MIB: u32 = 32;

/// The test kernel's exit status when all checks passed.
pub(super) const DONE: i32 = 42;

/// A sleep, its wake, and a run of the cipher alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    pub bytes: u64,
    /// The whole sleep, in microseconds, or in thousands of instructions. The next figures have the
    /// same unit.
    pub sleep: f64,
    /// The load at the wake.
    pub load: f64,
    /// The cipher alone, over the pieces that the guest had filled.
    pub cipher: f64,
    /// Bytes of those pieces.
    pub cipher_bytes: u64,
}

/// Plain and sealed cycles on machines with one number of harts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sealing {
    pub harts: u32,
    /// Pairs by time, one for each round.
    #[serde(rename = "microseconds")]
    pub timed: Vec<Pair>,
    /// The pair by instructions.
    #[serde(rename = "thousands_of_instructions")]
    pub counted: Pair,
}

/// The same memory, plain and sealed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// On a machine without a flash.
    pub plain: Cycle,
    /// On a machine with a flash.
    pub sealed: Cycle,
}

impl Cycle {
    fn per_gib(self, cost: f64) -> f64 {
        cost * gib_in(self.bytes)
    }

    /// The whole sleep, for each GiB that was saved.
    #[must_use]
    pub fn sleep_per_gib(&self) -> f64 {
        self.per_gib(self.sleep)
    }

    /// The load, for each GiB.
    #[must_use]
    pub fn load_per_gib(&self) -> f64 {
        self.per_gib(self.load)
    }

    /// The cipher alone, for each GiB.
    #[must_use]
    pub fn cipher_per_gib(&self) -> f64 {
        self.cipher * gib_in(self.cipher_bytes)
    }
}

/// How often `bytes` fit in a GiB.
#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
fn gib_in(bytes: u64) -> f64 {
    (1_u64 << 30) as f64 / bytes as f64
}

impl Pair {
    /// The rate of sealed loading, divided by the rate of the cipher alone: 1 is the limit.
    #[must_use]
    pub fn cipher_ratio(&self) -> f64 {
        self.sealed.cipher_per_gib() / self.sealed.load_per_gib()
    }
}

impl Sealing {
    /// Median and extremes of `figure` over the rounds.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Pair) -> f64) -> Spread {
        Spread::of(self.timed.iter().map(figure).collect())
    }
}

pub(super) fn measure(options: &BenchOptions, tell: &dyn Fn(&str)) -> anyhow::Result<Vec<Sealing>> {
    let qemu = Qemu::find()?;
    let mut all = Vec::new();
    for harts in HARTS
        .into_iter()
        .take(if options.quick { 1 } else { HARTS.len() })
    {
        let bench = |mib, counted| Setting {
            options,
            qemu: &qemu,
            harts,
            mib,
            counted,
        };
        let mut timed = Vec::new();
        for round in 1..=options.rounds.min(MAX_ROUNDS) {
            let pair = bench(options.sealed_mib, false).pair(round % 2 == 0)?;
            tell(&format!(
                "{harts} harts, round {round}: sealed loaded at {:.0} MB/s, {:.2} of the cipher alone",
                rate(pair.sealed.bytes, pair.sealed.load / 1000.0),
                pair.cipher_ratio()
            ));
            timed.push(pair);
        }
        let counted = bench(COUNTED_MIB, true).pair(false)?;
        all.push(Sealing {
            harts,
            timed,
            counted,
        });
    }
    Ok(all)
}

/// The machine, and the kind of measurement.
struct Setting<'b> {
    options: &'b BenchOptions,
    qemu: &'b Qemu,
    harts: u32,
    mib: u32,
    /// Whether to count instructions instead of time.
    counted: bool,
}

impl Setting<'_> {
    fn pair(&self, sealed_first: bool) -> anyhow::Result<Pair> {
        let first = self.cycle(sealed_first)?;
        let second = self.cycle(!sealed_first)?;
        let (plain, sealed) = if sealed_first {
            (second, first)
        } else {
            (first, second)
        };
        Ok(Pair { plain, sealed })
    }

    /// Makes a new machine sleep and wake once, and returns the figures.
    fn cycle(&self, sealed: bool) -> anyhow::Result<Cycle> {
        let folder = tempfile::tempdir_in(&self.options.folder)?;
        let machine = self.machine(folder.path(), sealed)?;
        let way = if sealed { "sealed" } else { "plain" };
        let what = || format!("a machine of {} harts, {way}", self.harts);
        let slept = power_on(&machine, self.qemu, 0).with_context(what)?;
        let woken = power_on(&machine, self.qemu, DONE).with_context(what)?;
        let lines = [slept, woken].concat();
        cycle(&lines, sealed, self.counted)
            .with_context(|| format!("{}; the console:\n{}", what(), lines.join("\n")))
    }

    fn machine(&self, folder: &Path, sealed: bool) -> anyhow::Result<Machine> {
        let memory = Bytes::mib((self.mib + OTHER_MIB).into());
        let disk = folder.join("disk");
        let area = NewDisk {
            root: None,
            swap: None,
            areas: vec![Bytes(2 * memory.0 + Bytes::mib(16).0)],
        };
        area.create(&disk, false, &indicatif::ProgressBar::hidden())?;
        let flash = folder.join("flash");
        if sealed {
            Flash::create(&flash)?;
        }
        let mut machine = Machine::new(&self.options.firmware);
        machine.harts = self.harts;
        machine.memory = memory;
        machine.kernel = Some(self.test_kernel());
        machine.command_line = format!("case=seal-bench fill_mib={}", self.mib);
        machine.disks = vec![Disk::nvme(disk)];
        machine.flash = sealed.then_some(flash);
        Ok(if self.counted {
            machine.for_counts(0)
        } else {
            machine.for_figures()
        })
    }

    fn test_kernel(&self) -> PathBuf {
        self.options.test_kernel.clone()
    }
}

/// Runs the machine for one power-on, which must end with `status`. Returns its console.
fn power_on(machine: &Machine, qemu: &Qemu, status: i32) -> anyhow::Result<Vec<String>> {
    let mut running = machine.power_on(qemu, PowerOn::default())?;
    let exit = running.wait_exit(Duration::from_secs(300));
    let tail = || running.tail(15).join("\n");
    let exit = exit.with_context(|| format!("the console's end:\n{}", tail()))?;
    ensure!(
        exit.status.code() == Some(status),
        "QEMU ended with {} instead of {status}; the console's end:\n{}{}",
        exit.status,
        tail(),
        exit.errors
    );
    Ok(running.lines().into_iter().map(|line| line.text).collect())
}

/// Reads a cycle's figures from the console.
fn cycle(lines: &[String], sealed: bool, counted: bool) -> anyhow::Result<Cycle> {
    let fields = |prefix: &str| {
        let found = lines.iter().find_map(|line| Fields::parse(line, prefix));
        found.with_context(|| format!("no line {prefix:?}"))
    };
    let number = |fields: &Fields, key: &str| {
        let value = fields.number(key);
        value.with_context(|| format!("no {key} in {fields:?}"))
    };
    let sleep = fields("poorwill: sleep ")?;
    let wake = fields("poorwill: wake ")?;
    let cipher = fields("cipher ")?;
    for line in [&sleep, &wake] {
        if (line.get("sealed") == Some("yes")) != sealed {
            bail!("the image should be sealed: {sealed}; the firmware says otherwise");
        }
    }
    // The machine's milliseconds. Under `-icount` a nanosecond is an instruction.
    let of_clock = |milliseconds: u64| thousands(milliseconds * 1_000_000);
    let cipher_cost = if counted {
        thousands(number(&cipher, "instructions")?)
    } else {
        thousands(number(&cipher, "us")? * 1000)
    };
    Ok(Cycle {
        bytes: number(&wake, "loaded_bytes")?,
        sleep: of_clock(number(&sleep, "ms")?),
        load: of_clock(number(&wake, "load_ms")?),
        cipher: cipher_cost,
        cipher_bytes: number(&cipher, "pieces")? << 20,
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
fn thousands(number: u64) -> f64 {
    number as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(sealed: &str) -> Vec<String> {
        [
            "poorwill: sleep mode=persist used_bytes=1 saved_bytes=2 ms=3000 sealed=SEALED generation=1",
            "poorwill: wake loaded_bytes=268435456 ms=1100 load_ms=1000 sealed=SEALED generation=1",
            "test kernel: cipher pieces=128 page_bytes=4096 us=450000 instructions=7000000 sum=5",
        ]
        .map(|line| line.replace("SEALED", sealed))
        .to_vec()
    }

    #[test]
    fn a_cycle_is_read_off_the_console() {
        let cycle = cycle(&console("yes"), true, false).unwrap();
        assert_eq!(
            (cycle.sleep, cycle.load, cycle.cipher),
            (3e6, 1e6, 450_000.0)
        );
        assert!((cycle.load_per_gib() - 4e6).abs() < 1e-6);
        assert!((cycle.cipher_per_gib() - 3.6e6).abs() < 1e-6);
        let pair = Pair {
            plain: cycle,
            sealed: cycle,
        };
        assert!((pair.cipher_ratio() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn instructions_are_the_clocks_nanoseconds() {
        let counted = cycle(&console("yes"), true, true).unwrap();
        assert_eq!((counted.load, counted.cipher), (1e6, 7000.0));
    }

    #[test]
    fn an_image_that_is_not_what_was_asked_for_is_no_figure() {
        assert!(cycle(&console("no"), true, false).is_err());
        assert!(cycle(&console("yes"), false, false).is_err());
        assert!(cycle(&console("no"), false, false).is_ok());
        assert!(cycle(&console("no")[..2], false, false).is_err());
    }
}
