//! What is measured, one struct for each way to switch a machine off and on again.
//! Times are milliseconds by the host's clock unless they say otherwise.

use serde::{Deserialize, Serialize};

use crate::NotHad;
use crate::spread::Spread;

/// All machines of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// How often each case was measured.
    pub rounds: u32,
    /// Harts of the machines.
    pub harts: u32,
    /// The machines' memory, and how much of it was in use.
    pub cases: Vec<Case>,
    /// What this host has no room for, and why.
    pub left_out: Vec<String>,
    /// How Linux was made to hibernate.
    pub hibernation_settings: String,
}

/// One machine with so much memory in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its RAM in MiB.
    pub installed_mib: u64,
    /// How much of it was to be in use, in MiB.
    pub used_mib: u64,
    /// Starts without an image: one in each round of [`Comparison::least`], those by which
    /// the machine came to be in the others.
    pub cold_boots: Vec<ColdBoot>,
    /// Poorwill's.
    pub sleeps: Vec<Sleep>,
    /// Poorwill's; as many.
    pub wakes: Vec<Wake>,
    /// The same bytes, moved by Linux and by the host, without a purpose.
    pub plain: Vec<PlainCopy>,
    /// By QEMU, of a machine with the same contents.
    pub qemu: Vec<QemuCycle>,
    /// By Linux.
    pub hibernations: Vec<Hibernation>,
    /// Why Linux did not come back from others.
    #[serde(default)]
    pub failed_hibernations: Vec<String>,
    /// Other figures that could not be had.
    #[serde(default)]
    pub not_had: Vec<NotHad>,
}

/// Power-on to redis's first answer, without an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdBoot {
    /// Until the firmware said so.
    pub firmware_at_ms: f64,
    /// Until the kernel started its first program.
    pub first_program_at_ms: Option<f64>,
    /// Until redis answered.
    pub total_ms: f64,
}

/// Suspend request to QEMU's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sleep {
    /// What the kernel counted as used when it was asked: MemTotal - MemFree.
    pub used_bytes: Option<u64>,
    /// Bytes in the image's extents.
    pub saved_bytes: u64,
    /// All of it, if the guest's line at the request came before the power-off.
    pub total_ms: Option<f64>,
    /// The kernel on its way down, by its own clock.
    pub kernel_ms: Option<f64>,
    /// The firmware, by its own clock, saving included.
    pub firmware_ms: f64,
    /// Saving alone.
    pub save_ms: f64,
}

/// Power-on to redis's first answer, waking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wake {
    /// Bytes of the image's extents that were loaded.
    pub loaded_bytes: u64,
    /// Until the firmware said that it hands over.
    pub handed_over_at_ms: f64,
    /// The firmware, by its own clock, loading included.
    pub firmware_ms: f64,
    /// Loading alone.
    pub load_ms: f64,
    /// The kernel from its first line to `suspend exit`, by its own clock.
    pub kernel_ms: Option<f64>,
    /// Until redis answered, if it did.
    pub total_ms: Option<f64>,
}

/// As many bytes as the image has, moved plainly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlainCopy {
    /// Read by the woken Linux from the sleep area.
    pub read_bytes: u64,
    /// How long that took, by its clock.
    pub read_ms: f64,
    /// Written and flushed by the woken Linux to the same disk.
    pub write_bytes: u64,
    /// How long that took.
    pub write_ms: f64,
    /// Bytes read from the disk's file by the host, and written and flushed to it.
    pub host_bytes: u64,
    /// How long reading them took.
    pub host_read_ms: f64,
    /// How long writing and flushing them took.
    pub host_write_ms: f64,
}

/// A machine saved and restored by QEMU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QemuCycle {
    /// How: see [`SaveKind`](poorwill_machine::qmp::SaveKind).
    pub kind: String,
    /// Bytes that the file takes on the host's disk.
    pub file_bytes: u64,
    /// From the command to the machine being saved. Not flushed.
    pub save_ms: f64,
    /// From the command to QEMU's end.
    pub save_total_ms: f64,
    /// From QEMU's being ready to the machine running.
    pub restore_ms: f64,
    /// From QEMU's being ready to redis's answer.
    pub total_ms: f64,
}

/// Linux's hibernation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hibernation {
    /// What the kernel counted as used when it was asked.
    pub used_bytes: u64,
    /// From the request to QEMU's end.
    pub save_ms: f64,
    /// From power-on to the firmware's handing over.
    pub firmware_at_ms: f64,
    /// From power-on to the kernel's first program, which then loads the image.
    pub first_program_at_ms: Option<f64>,
    /// From power-on to redis's answer.
    pub total_ms: f64,
}

impl Comparison {
    /// The case with the least in use, in the smallest machine.
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

    /// Of the wakes that have this figure.
    #[must_use]
    pub fn wake<F: Into<Option<f64>>>(&self, figure: impl Fn(&Wake) -> F) -> Option<Spread> {
        Spread::of_any(self.wakes.iter().filter_map(|wake| figure(wake).into()))
    }

    /// Of the sleeps that have this figure.
    #[must_use]
    pub fn sleep<F: Into<Option<f64>>>(&self, figure: impl Fn(&Sleep) -> F) -> Option<Spread> {
        Spread::of_any(self.sleeps.iter().filter_map(|sleep| figure(sleep).into()))
    }

    /// Of the cold boots.
    #[must_use]
    pub fn cold_boot(&self, figure: impl Fn(&ColdBoot) -> f64) -> Option<Spread> {
        Spread::of_any(self.cold_boots.iter().map(figure))
    }

    /// Of the plain copies.
    #[must_use]
    pub fn plain(&self, figure: impl Fn(&PlainCopy) -> f64) -> Option<Spread> {
        Spread::of_any(self.plain.iter().map(figure))
    }

    /// Of the hibernations.
    #[must_use]
    pub fn hibernation(&self, figure: impl Fn(&Hibernation) -> f64) -> Option<Spread> {
        Spread::of_any(self.hibernations.iter().map(figure))
    }

    /// The ways in which QEMU saved, in the order of measuring.
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

    /// Of QEMU's own cycles of one kind.
    #[must_use]
    pub fn qemu(&self, kind: &str, figure: impl Fn(&QemuCycle) -> f64) -> Option<Spread> {
        let of_kind = self.qemu.iter().filter(|cycle| cycle.kind == kind);
        Spread::of_any(of_kind.map(figure))
    }

    /// How fast wakes load: the median, in MB/s.
    pub(crate) fn load_rate(&self) -> Option<f64> {
        let of = self.wake(|wake| rate(wake.loaded_bytes, wake.load_ms));
        of.map(|spread| spread.median)
    }

    /// How fast sleeps save.
    pub(crate) fn save_rate(&self) -> Option<f64> {
        let of = self.sleep(|sleep| rate(sleep.saved_bytes, sleep.save_ms));
        of.map(|spread| spread.median)
    }

    /// How fast the woken Linux reads.
    pub(crate) fn plain_read_rate(&self) -> Option<f64> {
        let of = self.plain(|plain| rate(plain.read_bytes, plain.read_ms));
        of.map(|spread| spread.median)
    }

    /// How fast it writes.
    pub(crate) fn plain_write_rate(&self) -> Option<f64> {
        let of = self.plain(|plain| rate(plain.write_bytes, plain.write_ms));
        of.map(|spread| spread.median)
    }

    /// The kernel's own part of a wake, where it told it.
    #[must_use]
    pub fn kernel_resume(&self) -> Option<Spread> {
        Spread::of_any(self.wakes.iter().filter_map(|wake| wake.kernel_ms))
    }
}

/// MiB as GiB, without digits that say nothing.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "MiB of machines are few")]
pub fn gib(mib: u64) -> String {
    format!("{}", mib as f64 / 1024.0)
}

/// Bytes for each millisecond, in MB/s.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
pub fn rate(bytes: u64, milliseconds: f64) -> f64 {
    // Clocks that count whole milliseconds tell less than one as none.
    bytes as f64 / 1000.0 / milliseconds.max(1.0)
}
