//! Counts the instructions from power-on to the next stage, and compares them with OpenSBI's.
//!
//! The next stage is a short program that first reads `instret`, and then prints it. Under
//! `-icount` QEMU counts exactly. With several harts it counts the instructions of all.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Disk, Interrupts, Machine, PowerOn, Qemu};
use serde::{Deserialize, Serialize};

use crate::BenchOptions;
use crate::counted::attach_area;

/// OpenSBI of Debian's package `opensbi`.
pub const OPENSBI: &str = "/usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin";

/// The program that the machines start: reads `instret` into s0.
const READ: [u32; 1] = [0xc020_2473]; // rdinstret s0

/// Prints s0 as 16 hexadecimal digits on the SBI console, then shuts down.
const PRINT: [u32; 19] = [
    0x03c0_0493, // li   s1, 60
    0x0094_5533, // srl  a0, s0, s1        <- the next digit
    0x00f5_7513, // andi a0, a0, 15
    0x0305_0513, // addi a0, a0, '0'
    0x03a0_0293, // li   t0, '9' + 1
    0x0055_4463, // blt  a0, t0, 2 on
    0x0275_0513, // addi a0, a0, 'a' - '0' - 10
    0x4442_48b7, // lui  a7, "DBCN"
    0x34e8_889b, // addiw a7, a7
    0x0020_0813, // li   a6, console_write_byte
    0x0000_0073, // ecall
    0xffc4_8493, // addi s1, s1, -4
    0xfc04_dae3, // bgez s1, 11 back
    0x5352_58b7, // lui  a7, "SRST"
    0x3548_889b, // addiw a7, a7
    0x0000_0813, // li   a6, system_reset
    0x0000_0513, // li   a0, shutdown
    0x0000_0593, // li   a1, no reason
    0x0000_0073, // ecall
];

/// The start of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub interrupts: Interrupts,
    pub harts: u32,
    /// Instructions with Poorwill, which looks for an image on an NVMe disk.
    #[serde(rename = "poorwill_instructions")]
    pub poorwill: u64,
    /// Instructions with OpenSBI, which looks for none.
    #[serde(rename = "opensbi_instructions")]
    pub opensbi: u64,
}

impl Start {
    /// Poorwill's instructions, divided by OpenSBI's.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio to two digits")]
    pub fn ratio(&self) -> f64 {
        self.poorwill as f64 / self.opensbi as f64
    }
}

pub(super) const MACHINES: [(Interrupts, u32); 4] = [
    (Interrupts::Aia, 1),
    (Interrupts::Aia, 4),
    (Interrupts::Plic, 1),
    (Interrupts::Plic, 4),
];

/// Runs of each start. The least count is taken: the firmware polls its disk while the host moves
/// bytes, and this is not the firmware's own work.
const RUNS: u32 = 5;

pub(super) fn measure(options: &BenchOptions) -> anyhow::Result<Vec<Start>> {
    let qemu = Qemu::find()?;
    let disk = options.folder.join("empty-area.disk");
    let area = NewDisk {
        root: None,
        swap: None,
        areas: vec![Bytes::gib(1)],
    };
    area.create(&disk, true, &indicatif::ProgressBar::hidden())?;
    let mut machine = Machine::new(&options.firmware);
    machine.disks = vec![Disk::nvme(disk)];
    let stage = Stage::with(options, machine, &READ)?;
    let least = |firmware: &Path, interrupts, harts| {
        let mut least = u64::MAX;
        for _ in 0..RUNS {
            least = least.min(stage.count(firmware, interrupts, harts, &qemu)?);
        }
        anyhow::Ok(least)
    };
    let measured = MACHINES.map(|(interrupts, harts)| {
        Ok(Start {
            interrupts,
            harts,
            poorwill: least(&options.firmware, interrupts, harts)?,
            opensbi: least(Path::new(OPENSBI), interrupts, harts)?,
        })
    });
    measured.into_iter().collect()
}

/// A machine whose next stage prints its instruction count, or another number.
#[derive(Debug)]
pub(super) struct Stage {
    machine: Machine,
}

impl Stage {
    /// With the sleep area in memory. The firmware then never waits, and the count is the same each
    /// time.
    pub(super) fn exact(options: &BenchOptions) -> anyhow::Result<Self> {
        let mut machine = Machine::new(&options.firmware);
        attach_area(&mut machine, &options.folder.join("empty-area.memory"))?;
        Self::with(options, machine, &READ)
    }

    /// Prints what `reads` leaves in s0, in place of the count.
    pub(super) fn with(
        options: &BenchOptions,
        mut machine: Machine,
        reads: &[u32],
    ) -> anyhow::Result<Self> {
        let probe = options.folder.join(format!("probe-{}.bin", reads.len()));
        let words = reads.iter().chain(&PRINT);
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        fs::write(&probe, bytes).with_context(|| format!("writing {}", probe.display()))?;
        machine.memory = Bytes::gib(1);
        machine.kernel = Some(probe);
        let machine = machine.for_counts(0);
        Ok(Stage { machine })
    }

    pub(super) fn count(
        &self,
        firmware: &Path,
        interrupts: Interrupts,
        harts: u32,
        qemu: &Qemu,
    ) -> anyhow::Result<u64> {
        let machine = Machine {
            firmware: firmware.to_owned(),
            interrupts,
            harts,
            ..self.machine.clone()
        };
        count(&machine, qemu).with_context(|| format!("starting {}", firmware.display()))
    }
}

fn count(machine: &Machine, qemu: &Qemu) -> anyhow::Result<u64> {
    let mut running = machine.power_on(qemu, PowerOn::default())?;
    running.wait_exit(Duration::from_secs(60))?;
    let lines = running.lines();
    let count = lines.iter().rev().find_map(|line| {
        (line.text.len() == 16).then(|| u64::from_str_radix(&line.text, 16).ok())?
    });
    match count {
        Some(count) => Ok(count),
        None => bail!(
            "the next stage printed no count; the console's end:\n{}",
            running.tail(5).join("\n")
        ),
    }
}
