//! The figures of a comparison: one struct for each way to switch a machine off and on. Times are
//! milliseconds by the host's clock, unless a field says otherwise.

use serde::{Deserialize, Serialize};

use crate::NotMeasured;
use crate::spread::Spread;

/// The figures of one comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Number of measurements of each case.
    pub rounds: u32,
    pub harts: u32,
    /// One for each machine's RAM and memory in use.
    pub cases: Vec<Case>,
    /// Cases for which this host has no room, with the reasons.
    pub left_out: Vec<String>,
    /// Settings of Linux's hibernation.
    pub hibernation_settings: String,
}

/// A machine of one size with one amount of memory in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub installed_mib: u64,
    /// Memory that the guest is made to use, in MiB.
    pub used_mib: u64,
    /// Starts without an image. [`Comparison::least`] has one in each round. Each other case has
    /// only those that created its machine.
    pub cold_boots: Vec<ColdBoot>,
    /// Poorwill's sleeps.
    pub sleeps: Vec<Sleep>,
    /// Poorwill's wakes, one for each sleep.
    pub wakes: Vec<Wake>,
    /// Plain copies of an image's length by Linux and by the host.
    pub plain: Vec<PlainCopy>,
    /// QEMU's saves and restores of a machine with the same contents.
    pub qemu: Vec<QemuCycle>,
    /// Linux's hibernations.
    pub hibernations: Vec<Hibernation>,
    /// Reasons of failed hibernations.
    #[serde(default)]
    pub failed_hibernations: Vec<String>,
    /// Other figures that could not be measured, with the reasons.
    #[serde(default)]
    pub not_had: Vec<NotMeasured>,
}

/// From power-on to redis's first answer, without an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdBoot {
    /// Until the firmware's report.
    pub firmware_at_ms: f64,
    /// Until the kernel started its first program.
    pub first_program_at_ms: Option<f64>,
    /// Until redis answered.
    pub total_ms: f64,
}

/// From the request to suspend to QEMU's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sleep {
    /// Used memory at the request, by the kernel: MemTotal - MemFree.
    pub used_bytes: Option<u64>,
    /// Bytes in the image's extents.
    pub saved_bytes: u64,
    /// The whole time. `None`: the guest's line at the request came after the power-off, so it has
    /// no start.
    pub total_ms: Option<f64>,
    /// The kernel's part of the suspend, by its own clock.
    pub kernel_ms: Option<f64>,
    /// The firmware's part with the save, by its own clock.
    pub firmware_ms: f64,
    /// The save alone.
    pub save_ms: f64,
}

/// From power-on to redis's first answer, by a wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wake {
    /// Bytes that were loaded, of the image's extents.
    pub loaded_bytes: u64,
    /// Until the firmware jumped to the OS.
    pub handed_over_at_ms: f64,
    /// The firmware's part with the load, by its own clock.
    pub firmware_ms: f64,
    /// The load alone.
    pub load_ms: f64,
    /// The kernel from its first line to `suspend exit`, by its own clock.
    pub kernel_ms: Option<f64>,
    /// Until redis answered; `None`: it did not.
    pub total_ms: Option<f64>,
}

/// Plain copies, for a comparison with a load and a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlainCopy {
    /// Bytes that the woken Linux read from the sleep area.
    pub read_bytes: u64,
    /// Time of the read, by Linux's clock.
    pub read_ms: f64,
    /// Bytes that the woken Linux wrote and flushed to the same disk.
    pub write_bytes: u64,
    /// Time of the write, by Linux's clock.
    pub write_ms: f64,
    /// Bytes that the host read from the disk's file, and then wrote and flushed to it.
    pub host_bytes: u64,
    /// Time of the host's read.
    pub host_read_ms: f64,
    /// Time of the host's write.
    pub host_write_ms: f64,
}

/// A save and restore by QEMU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QemuCycle {
    /// See [`SaveKind`](poorwill_machine::qmp::SaveKind).
    pub kind: String,
    /// Bytes of the file on the host's disk.
    pub file_bytes: u64,
    /// From the command to the saved machine, without a flush.
    pub save_ms: f64,
    /// From the command to QEMU's end.
    pub save_total_ms: f64,
    /// From QEMU's readiness to the running machine.
    pub restore_ms: f64,
    /// From QEMU's readiness to redis's answer.
    pub total_ms: f64,
}

/// A hibernation of Linux, and its resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hibernation {
    /// Used memory at the request, by the kernel.
    pub used_bytes: u64,
    /// From the request to QEMU's end.
    pub save_ms: f64,
    /// From power-on to the firmware's handover.
    pub firmware_at_ms: f64,
    /// From power-on to the kernel's first program, which then loads the image.
    pub first_program_at_ms: Option<f64>,
    /// From power-on to redis's answer.
    pub total_ms: f64,
}

impl Comparison {
    /// The case with the least memory in use, in the smallest machine.
    #[must_use]
    pub fn least(&self) -> Option<&Case> {
        let key = |case: &&Case| (case.used_mib, case.installed_mib);
        self.cases.iter().min_by_key(key)
    }
}

impl Case {
    /// The case's name: `0.5 of 4 GiB`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} of {} GiB", gib(self.used_mib), gib(self.installed_mib))
    }

    /// The spread of a figure over the wakes that have it.
    #[must_use]
    pub fn wake<F: Into<Option<f64>>>(&self, figure: impl Fn(&Wake) -> F) -> Option<Spread> {
        Spread::of_any(self.wakes.iter().filter_map(|wake| figure(wake).into()))
    }

    /// The spread of a figure over the sleeps that have it.
    #[must_use]
    pub fn sleep<F: Into<Option<f64>>>(&self, figure: impl Fn(&Sleep) -> F) -> Option<Spread> {
        Spread::of_any(self.sleeps.iter().filter_map(|sleep| figure(sleep).into()))
    }

    #[must_use]
    pub fn cold_boot(&self, figure: impl Fn(&ColdBoot) -> f64) -> Option<Spread> {
        Spread::of_any(self.cold_boots.iter().map(figure))
    }

    #[must_use]
    pub fn plain(&self, figure: impl Fn(&PlainCopy) -> f64) -> Option<Spread> {
        Spread::of_any(self.plain.iter().map(figure))
    }

    #[must_use]
    pub fn hibernation(&self, figure: impl Fn(&Hibernation) -> f64) -> Option<Spread> {
        Spread::of_any(self.hibernations.iter().map(figure))
    }

    /// The kinds of QEMU's saves, in the order of measurement.
    #[must_use]
    pub fn qemu_kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        for cycle in &self.qemu {
            if !kinds.contains(&&*cycle.kind) {
                kinds.push(&cycle.kind);
            }
        }
        kinds
    }

    /// The spread of a figure over QEMU's saves and restores of one kind.
    #[must_use]
    pub fn qemu(&self, kind: &str, figure: impl Fn(&QemuCycle) -> f64) -> Option<Spread> {
        let of_kind = self.qemu.iter().filter(|cycle| cycle.kind == kind);
        Spread::of_any(of_kind.map(figure))
    }

    /// Median rate of loading, in MB/s.
    pub(crate) fn load_rate(&self) -> Option<f64> {
        let of = self.wake(|wake| rate(wake.loaded_bytes, wake.load_ms));
        of.map(|spread| spread.median)
    }

    /// Median rate of saving, in MB/s.
    pub(crate) fn save_rate(&self) -> Option<f64> {
        let of = self.sleep(|sleep| rate(sleep.saved_bytes, sleep.save_ms));
        of.map(|spread| spread.median)
    }

    /// Median rate of the woken Linux's reads, in MB/s.
    pub(crate) fn plain_read_rate(&self) -> Option<f64> {
        let of = self.plain(|plain| rate(plain.read_bytes, plain.read_ms));
        of.map(|spread| spread.median)
    }

    /// Median rate of the woken Linux's writes, in MB/s.
    pub(crate) fn plain_write_rate(&self) -> Option<f64> {
        let of = self.plain(|plain| rate(plain.write_bytes, plain.write_ms));
        of.map(|spread| spread.median)
    }

    /// The spread of the kernel's part over the wakes that report it.
    #[must_use]
    pub fn kernel_resume(&self) -> Option<Spread> {
        Spread::of_any(self.wakes.iter().filter_map(|wake| wake.kernel_ms))
    }
}

/// MiB as GiB, without trailing zeros.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "MiB of machines are few")]
pub fn gib(mib: u64) -> String {
    format!("{}", mib as f64 / 1024.0)
}

/// The rate in MB/s of `bytes` in `milliseconds`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
pub fn rate(bytes: u64, milliseconds: f64) -> f64 {
    // A clock of whole milliseconds shows a shorter time as 0.
    bytes as f64 / 1000.0 / milliseconds.max(1.0)
}
