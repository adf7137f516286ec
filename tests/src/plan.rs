//! The test plan, as `plan.toml` has it.

use std::collections::BTreeMap;

use anyhow::Context;
use poorwill_machine::paths::Kernel;
use serde::Deserialize;

mod power_on;

pub(crate) use power_on::{Deed, End, PowerOn, WrittenBackBy};

/// The whole plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Boards, by the name that rows use.
    pub machines: BTreeMap<String, Board>,
    /// Disks, by the name that rows use.
    pub disks: BTreeMap<String, DiskKind>,
    /// What is tested, in the order in which it runs.
    pub rows: Vec<Row>,
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// It has APLIC and IMSIC; else a PLIC.
    pub aia: bool,
    /// Further arguments for QEMU.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What its device tree has beside what QEMU writes into it, as source text.
    pub tree: Option<String>,
    /// Its memory is persistent, each hart has a cache as the plugin's usual one, and a line
    /// says when the power fails, which then lasts for so many of its microseconds.
    pub hold_up_us: Option<u32>,
    /// Its device tree is damaged where the node of this name begins.
    pub damaged_at: Option<String>,
}

/// A kind of disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskKind {
    /// It holds the guest's root file system.
    #[serde(default)]
    pub root: bool,
    /// The sleep areas on it, such as `["1G"]`.
    #[serde(default)]
    pub areas: Vec<String>,
    /// How it is attached.
    #[serde(default)]
    pub attached: Attached,
}

/// How a disk is attached.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Attached {
    /// An NVMe controller on the host's bridge.
    #[default]
    Nvme,
    /// An NVMe controller behind a PCIe root port.
    NvmeBehindPort,
    /// A SATA disk on an AHCI controller. It does not wait for the host's own disk, which
    /// may take longer than a power lasts.
    Ahci,
    /// A SATA disk that loses, at a power cut, what was not flushed.
    AhciVolatile,
    /// An NVMe controller whose disk does not wait, either.
    NvmePrompt,
    /// An NVMe controller with logical blocks of 4096 bytes.
    #[serde(rename = "nvme-4k")]
    Nvme4k,
    /// An NVMe controller whose disk loses, at a power cut, what was not flushed. QEMU's
    /// takes no notice of writes that ask for a flush by themselves (FUA), as Linux's file
    /// systems do where the disk says that it can.
    NvmeVolatile,
    /// Memory of a PCI device that is the file's (`ivshmem-plain`): as much of the
    /// file as makes a power of two.
    Ivshmem,
    /// An NVMe controller without a namespace, whose persistent memory region is
    /// the file's, likewise.
    NvmePmr,
    /// A namespace that two NVMe controllers of a subsystem share.
    NvmeShared,
    /// `ivshmem`, behind a PCIe root port.
    IvshmemBehindPort,
    /// virtio-blk.
    Virtio,
}

/// A row: one test, on one or more machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What it shows; the first part of its trials' names.
    pub name: String,
    /// Kinds of machines; one trial for each. This field and the next three have defaults.
    pub machines: Vec<String>,
    /// Numbers of harts; one trial for each.
    pub harts: Vec<u32>,
    /// Sizes of memory; one trial for each.
    pub memory: Vec<String>,
    /// What runs on it.
    pub guest: Guest,
    /// The Linux kernel, `stock` unless said otherwise.
    #[serde(default)]
    pub kernel: Kernel,
    /// The kernel's command line; for Linux, what is added to it.
    #[serde(default)]
    pub words: String,
    /// Its disks, in order.
    #[serde(default)]
    pub disks: Vec<String>,
    /// Junk is loaded as an initrd, for the firmware to zero at a wake.
    #[serde(default)]
    pub junk_initrd: bool,
    /// What wakes is foretold from the firmware's file: not on a machine of several ranges of
    /// memory.
    #[serde(default = "yes")]
    pub foretold: bool,
    /// The next stage lies in flash: our loader, which starts the guest.
    #[serde(default)]
    pub loader: bool,
    /// The machine's memory is a file's, and outlives its power: all zeros at first.
    #[serde(default)]
    pub lasting_memory: bool,
    /// QEMU runs under the plugin: caches lose lines that are not written back when the power
    /// goes, and time is fair. Sets `loader` and `lasting_memory`.
    #[serde(default)]
    pub plugin: bool,
    /// The machine has flash for a vault, erased at first.
    #[serde(default)]
    pub vault: bool,
    /// The firmware's code and constants must be, at the end of each power-on, as they were
    /// loaded.
    #[serde(default)]
    pub intact: bool,
    /// The firmware overwrites what it takes for free before it saves it: what is
    /// in use after all shows in the guest.
    #[serde(default)]
    pub poison_free: bool,
    /// The guest is Linux, its free pages are left out, and what is saved is at
    /// most so many times what its kernel calls used just before.
    pub saved_ratio: Option<f64>,
    /// A reset ends QEMU instead of starting the machine again.
    #[serde(default)]
    pub exit_on_reset: bool,
    /// Short for steps: so many sleeps, then success.
    pub sleeps: Option<u32>,
    /// What is done with the machine, one after the other.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Those of its trials that `make test` runs, as `MACHINE/HARTS/MEMORY`; the
    /// others are `make test-long`'s. Unset: all.
    pub often: Option<Vec<String>>,
    /// Its first step, a sleep, is not what it tests: it is carried out once for all
    /// trials that begin with it on the same machine, and each has a copy.
    #[serde(default)]
    pub prepared: bool,
    /// Its machines wait most of the time, for alarms or keys: two of them share a core.
    #[serde(default)]
    pub waits: bool,
    /// Seconds that a power-on may last.
    #[serde(default = "default_timeout")]
    pub timeout_s: u64,
}

impl Row {
    /// What runs at a power-on if that boots cold.
    #[must_use]
    pub fn guest_of(&self, on: &PowerOn) -> Guest {
        on.guest.unwrap_or(self.guest)
    }

    /// Its command line; for Linux, what is added to it.
    #[must_use]
    pub fn words_of<'a>(&'a self, on: &'a PowerOn) -> &'a str {
        match (&on.words, on.guest) {
            (Some(words), _) => words,
            (None, Some(_)) => "",
            (None, None) => &self.words,
        }
    }
}

fn yes() -> bool {
    true
}

fn default_timeout() -> u64 {
    300
}

/// What runs on the machine.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    /// `tests/kernel`.
    Kernel,
    /// Debian, with the cycle test as its init.
    Linux,
    /// Debian, with the snapshot test as its init.
    LinuxSnapshot,
    /// Debian, with work on its disk and its network as its init
    /// (`guest/overlay/usr/local/lib/poorwill/work`).
    LinuxWork,
    /// A Linux without a root file system, which tests itself (`guest/tiny/init`).
    LinuxTiny,
    /// U-Boot.
    UBoot,
    /// Nothing: the firmware has no next stage.
    Nothing,
}

/// A step of a trial.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// The machine is switched on, and ends somehow.
    PowerOn(Box<PowerOn>),
    /// The machine sleeps and wakes (`case=endure`), and its power is cut at
    /// random moments.
    Cuts {
        /// So many times, in about half as many power-ons more.
        cuts: u32,
        /// Chooses the moments; else random.
        seed: Option<u64>,
    },
    /// The sleep area of the last disk is configured while the machine is off.
    Configure {
        /// How.
        configure: Sleeping,
    },
    /// The medium is damaged while the machine is off.
    Damage {
        /// What of it.
        damage: Damage,
    },
    /// Somebody has the machine's disk, or its flash, in hands while it is off.
    Tamper {
        /// What they do.
        tamper: Tamper,
    },
    /// Somebody has the machine's memory in hands while it is off, which outlives the power.
    Memory {
        /// What they do.
        memory: OnMemory,
    },
    /// The snapshot on the last disk is managed while the machine is off
    /// (`poorwill area`).
    Snapshot {
        /// What is done with it.
        snapshot: Managing,
    },
}

/// What is done with a snapshot.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Managing {
    /// It is deleted, and the machine's flash forgets it.
    Delete,
    /// It is exported, and imported on a second machine, with which the trial goes
    /// on: new flash, and a disk that is a copy but for its sleep area, a new one.
    Move,
}

/// What somebody does to a machine that is off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Tamper {
    /// The last disk is copied.
    Copy,
    /// The copy is put in the place of the last disk.
    PutBack,
    /// The sleep area is copied to a new disk of the same kind, which takes the
    /// place of the last one.
    OtherDisk,
    /// The disk is moved to a machine that has slept too, with a key of its
    /// own.
    OtherMachine,
    /// The disk is moved to a machine that is new.
    NewMachine,
    /// The key is erased.
    EraseKey,
    /// The machine's flash is given to somebody who uses its beginning alone, as UEFI does
    /// for its variables; the vault, if there is one, is gone.
    OthersFlash,
    /// The flash still holds what that one has written, and nothing more.
    CheckOthersFlash,
    /// What the vault counts can be read no more.
    DamageVault,
    /// A plain image is put in the place of the sealed one: the seal's mark is
    /// taken off, and the checksum made to fit.
    Unseal,
}

/// What somebody does to the memory of a machine that is off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OnMemory {
    /// All of it is copied.
    Copy,
    /// The copy is put in its place.
    PutBack,
    /// One bit of a part of a cut's record is turned over.
    FlipPart,
    /// One bit of its commit line.
    FlipCommit,
    /// Likewise, and the line's checksum is made to fit.
    ForgeCommit,
    /// What stands for the wear registers of its controller holds something.
    SetWear,
    /// It is lost with the power.
    LoseWear,
    /// It holds what it held.
    CheckWear,
    /// The controller tells of an error.
    TellError,
}

/// How a machine is to sleep (`poorwill area set`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleeping {
    /// The sleep mode.
    pub mode: Option<String>,
    /// Milliseconds after which a staged sleep is saved.
    pub delay_ms: Option<u64>,
    /// The next sleep is kept as a snapshot of this name.
    pub next_snapshot: Option<String>,
    /// After how many failed wakes in a row that is given up; 0: never.
    pub snapshot_tries: Option<u32>,
    /// How long a key is waited for, in ms.
    pub snapshot_key_ms: Option<u32>,
}

/// A place of the sleep area. Before the first sleep, only the record and the
/// header have one: those of the first slot.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The record of the slot with the image.
    Record,
    /// The image's header.
    Header,
    /// The image's machine state.
    State,
    /// The image's map of pages.
    Map,
    /// The image's digests.
    Digests,
    /// The middle of the image's page data.
    Data,
    /// The last page of the image's page data.
    DataEnd,
}

/// What is done to the last disk while the machine is off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// The disk ends in the middle of the image's data.
    Truncate,
    /// The image's data is overwritten with zeros, all of it.
    ZeroData,
    /// The whole sleep area is overwritten with random bytes.
    RandomArea,
    /// Both copies of the partition table are overwritten with zeros.
    NoTable,
    /// One bit of a place is turned over.
    #[serde(untagged)]
    Flip(Place),
}

/// An error that QEMU's blkdebug driver injects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What fails.
    pub on: Operation,
    /// Only where this lies; else anywhere.
    pub at: Option<Place>,
    /// The so-many-th, counted from 1 and from power-on; else every one.
    pub nth: Option<u32>,
}

/// What fails.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Flushing the write cache.
    Flush,
}

/// Reads `plan.toml`.
///
/// # Errors
///
/// A field that is missing, unknown, or of another type.
pub fn load_plan() -> anyhow::Result<Plan> {
    read(include_str!("../plan.toml")).context("tests/plan.toml")
}

/// Completes each row from the plan's `defaults`.
fn read(text: &str) -> anyhow::Result<Plan> {
    let mut plan: toml::Table = text.parse()?;
    let defaults = plan.remove("defaults").context("no defaults")?;
    let defaults = defaults.as_table().context("defaults are not a table")?;
    let rows = plan.get_mut("rows").and_then(toml::Value::as_array_mut);
    for row in rows.context("no rows")? {
        let row = row.as_table_mut().context("a row is not a table")?;
        let has_plugin = row.get("plugin").and_then(toml::Value::as_bool) == Some(true);
        let implied = ["loader", "lasting_memory"].map(|key| (key.to_owned(), has_plugin.into()));
        for (key, value) in implied.into_iter().chain(defaults.clone()) {
            row.entry(key).or_insert(value);
        }
    }
    Ok(plan.try_into()?)
}
