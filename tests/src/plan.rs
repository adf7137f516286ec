//! The types of the test plan, `plan.toml`.

use std::collections::BTreeMap;

use anyhow::Context;
use poorwill_machine::Board;
use poorwill_machine::paths::Kernel;
use serde::Deserialize;

mod domains;
mod fault;
mod power_on;

pub(crate) use domains::{Bus, Critical, Domain, Linux, Load, Role};
pub(crate) use fault::{Fault, Forgery, Operation, Place};
pub(crate) use power_on::{Deed, End, Event, Frames, Guest, PowerOn, WrittenBackBy};

/// The plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Kinds of machines, by the name that rows use.
    pub machines: BTreeMap<String, MachineKind>,
    /// Disks, by the name that rows use.
    pub disks: BTreeMap<String, DiskKind>,
    /// The tests, in the order in which they run.
    pub rows: Vec<Row>,
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineKind {
    /// Its board: `virt` by default.
    #[serde(default)]
    pub board: Board,
    /// Whether it has APLIC and IMSIC. If not, it has a PLIC.
    pub aia: bool,
    /// Further arguments for QEMU.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Source text of nodes that are added to QEMU's device tree.
    pub tree: Option<String>,
    /// ID of the hart that its tree makes the weak core, for an executor.
    pub weak_core: Option<u32>,
    /// Makes its memory persistent, with a power-fail line and the plugin's default cache for each
    /// hart. The value is the hold-up in the machine's microseconds.
    pub hold_up_us: Option<u32>,
    /// The name of a node at whose start the device tree is damaged.
    pub damaged_at: Option<String>,
    /// Whether it has an IOMMU, and a socket for each of the row's domains.
    #[serde(default)]
    pub sockets: bool,
}

/// A kind of disk.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskKind {
    /// Whether it contains the guest's root file system.
    #[serde(default)]
    pub root: bool,
    /// Whether it contains the tiny guest's files, for U-Boot. The row's words are on the kernel's
    /// command line.
    #[serde(default)]
    pub boot: bool,
    /// The sleep areas on it, by length, such as `["1G"]`.
    #[serde(default)]
    pub areas: Vec<String>,
    /// The length of another partition beside the areas, such as `"8M"`.
    pub beside: Option<String>,
    /// How it is attached.
    #[serde(default)]
    pub attached: Attached,
}

/// How a disk is attached to the machine.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Attached {
    /// An NVMe controller on the host bridge.
    #[default]
    Nvme,
    /// An NVMe controller behind a PCIe root port.
    NvmeBehindPort,
    /// A SATA disk on an AHCI controller. It does not wait for the host's disk, which may take
    /// longer than a hold-up.
    Ahci,
    /// A SATA disk that loses its unflushed writes at a power cut.
    AhciVolatile,
    /// An NVMe controller whose disk does not wait for the host's disk, either.
    NvmePrompt,
    /// An NVMe controller with logical blocks of 4096 bytes.
    #[serde(rename = "nvme-4k")]
    Nvme4k,
    /// An NVMe controller whose disk loses its unflushed writes at a power cut. QEMU's controller
    /// ignores the flush in a write with FUA, which Linux's file systems use if the disk offers it.
    NvmeVolatile,
    /// Memory of a PCI device (`ivshmem-plain`) that the file backs: the largest power of two that
    /// fits in the file.
    Ivshmem,
    /// An NVMe controller without a namespace. The file backs its persistent memory region, as for
    /// `Ivshmem`.
    NvmePmr,
    /// A namespace that two NVMe controllers of a subsystem share.
    NvmeShared,
    /// Namespace 2 of the NVMe controller `namespaces`, which leaves PCI slots before it free.
    NvmeSecond,
    /// Namespace 3 of that controller, which another disk has.
    NvmeThird,
    /// `Ivshmem`, behind a PCIe root port.
    IvshmemBehindPort,
    /// virtio-blk.
    Virtio,
}

/// A row: a test, on one or more machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The subject of the test; the first part of its trials' names.
    pub name: String,
    /// Kinds of machines, with one trial for each. This field and the next three have defaults.
    pub machines: Vec<String>,
    /// Numbers of harts, with one trial for each.
    pub harts: Vec<u32>,
    /// Sizes of memory, with one trial for each.
    pub memory: Vec<String>,
    /// The guest.
    pub guest: Guest,
    /// The Linux kernel; `stock` by default.
    #[serde(default)]
    pub kernel: Kernel,
    /// The kernel's command line. For Linux, words that are added to it.
    #[serde(default)]
    pub words: String,
    /// Names of its disks, in order. A machine with `sockets` has at most one: machine mode's own, an
    /// NVMe disk or memory.
    #[serde(default)]
    pub disks: Vec<String>,
    /// The domains of a machine with `sockets`, by their sockets. Harts and memory of the row are
    /// those of each socket. The row has no other guest.
    #[serde(default)]
    pub domains: Vec<Domain>,
    /// A machine with `sockets` has the domains of the example of docs/domains.md.
    #[serde(default)]
    pub page: bool,
    /// The PCI devices of hostile domains.
    #[serde(default)]
    pub bus: Bus,
    /// Further source text of the device tree.
    #[serde(default)]
    pub tree: String,
    /// Contents of memory at each power-on.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// QEMU loads junk as an initrd. The firmware must clear it at a wake.
    #[serde(default)]
    pub junk_initrd: bool,
    /// The wake is forecast from the firmware file. This does not work for a machine with several
    /// ranges of memory.
    #[serde(default = "yes")]
    pub foretold: bool,
    /// U-Boot is the one of the guest's lock, not the installed one.
    #[serde(default)]
    pub locked_u_boot: bool,
    /// The next stage is in flash: Poorwill's loader, which starts the guest.
    #[serde(default)]
    pub loader: bool,
    /// The next stage is in flash: EDK2, which starts the guest, and describes the machine by ACPI.
    #[serde(default)]
    pub edk2: bool,
    /// A file backs the machine's memory, which then survives the power-off. At first it is all
    /// zeros.
    #[serde(default)]
    pub lasting_memory: bool,
    /// QEMU runs under the plugin: caches lose lines that are not written back when the power ends,
    /// and the time base is fair. Implies `loader` and `lasting_memory`.
    #[serde(default)]
    pub plugin: bool,
    /// QEMU runs under the plugin's fair time base, which lets no hart delay another. The plugin logs
    /// the critical guest's frames, and QEMU traces traps.
    #[serde(default)]
    pub fair: bool,
    /// The machine has a flash for a vault, which is erased at first.
    #[serde(default)]
    pub vault: bool,
    /// At the end of each power-on, the firmware's code and constants must be unchanged.
    #[serde(default)]
    pub intact: bool,
    /// The firmware overwrites pages that it considers free before it saves the machine. The guest
    /// then notices a page that was in use.
    #[serde(default)]
    pub poison_free: bool,
    /// The firmware's weak hart gives the OS back every 97 instructions, and gets it again.
    #[serde(default)]
    pub hand_back: bool,
    /// The firmware compares translated code with the interpreter.
    #[serde(default)]
    pub check_blocks: bool,
    /// The guest is Linux, and its free pages are left out. The saved bytes are at most this many
    /// times the memory that its kernel called used before the sleep.
    pub saved_ratio: Option<f64>,
    /// A reset ends QEMU instead of restarting the machine.
    #[serde(default)]
    pub exit_on_reset: bool,
    /// Stands for steps: this number of sleeps, and then success.
    pub sleeps: Option<u32>,
    /// The steps, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The trials that `make test` runs, as `MACHINE/HARTS/MEMORY`. The others are left to `make
    /// test-long`. Unset: all.
    pub often: Option<Vec<String>>,
    /// The first step is a sleep that the row does not test. It is run once for all trials that
    /// begin with it on the same machine, and each trial gets a copy.
    #[serde(default)]
    pub prepared: bool,
    /// The row's machines wait most of the time, for alarms or keys. Two of them share a core.
    #[serde(default)]
    pub waits: bool,
    /// Time limit of a power-on, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout_s: u64,
}

impl Row {
    /// The guest of a power-on, if it boots cold.
    #[must_use]
    pub fn guest_of(&self, on: &PowerOn) -> Guest {
        on.guest.unwrap_or(self.guest)
    }

    /// The command line of a power-on. For Linux, words that are added to it.
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

/// A step of a trial.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// The machine is switched on, and must end in a given way.
    PowerOn(Box<PowerOn>),
    /// The machine sleeps and wakes (`case=endure`), and its power is cut at random moments.
    Cuts {
        /// The number of cuts. About half that number of other power-ons come in between.
        cuts: u32,
        /// The seed that chooses the moments. Unset: a random one.
        seed: Option<u64>,
    },
    /// The sleep area of the last disk is configured, with the machine off.
    Configure {
        /// The new settings.
        configure: Sleeping,
    },
    /// The medium is damaged, with the machine off.
    Damage {
        /// The damage.
        damage: Damage,
    },
    /// An attacker changes the machine's disk or its flash, with the machine off.
    Tamper {
        /// The change.
        tamper: Tamper,
    },
    /// The persistent memory is changed or checked, with the machine off.
    Memory {
        /// The change or the check.
        memory: OnMemory,
    },
    /// The snapshot on the last disk is managed (`poorwill area`), with the machine off.
    Snapshot {
        /// The action.
        snapshot: Managing,
    },
    /// The newest record on the last disk must be a set's (`poorwill area`).
    Set {
        /// A pattern for each part: the reason why its domain did not wake. It is empty if the
        /// domain woke.
        set: Vec<String>,
    },
}

/// An action on a snapshot.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Managing {
    /// It is deleted, also from the vault in the machine's flash.
    Delete,
    /// It is exported, and imported on a second machine, with which the trial continues. That has a
    /// new flash, and a copy of the disk with a new sleep area.
    Move,
}

/// An attack on a machine that is off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Tamper {
    /// The last disk is copied.
    Copy,
    /// The copy replaces the last disk.
    PutBack,
    /// The sleep area is copied to a new disk of the same kind, which replaces the last disk.
    OtherDisk,
    /// The disk is moved to another machine, which has slept and has its own key.
    OtherMachine,
    /// The disk is moved to a new machine.
    NewMachine,
    /// The key is erased.
    EraseKey,
    /// Another program, such as UEFI for its variables, writes to the start of the flash. The
    /// vault, if there is one, is erased.
    OthersFlash,
    /// The flash must still contain what that program has written, and nothing else.
    CheckOthersFlash,
    /// The vault's counts become unreadable.
    DamageVault,
    /// A plain image replaces the sealed one: the seal is removed from its header, and the checksum
    /// is corrected.
    Unseal,
}

/// A change or a check of the memory of a machine that is off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OnMemory {
    /// All of it is copied.
    Copy,
    /// The copy replaces the memory.
    PutBack,
    /// One bit in a part of a cut's record is inverted.
    FlipPart,
    /// One bit in the commit line of a cut's record is inverted.
    FlipCommit,
    /// The same, and the line's checksum is corrected.
    ForgeCommit,
    /// Values are set in the memory that stands for the memory controller's wear registers.
    SetWear,
    /// The wear registers are lost with the power.
    LoseWear,
    /// The wear registers must have the values that were set.
    CheckWear,
    /// The memory controller reports an error.
    TellError,
}

/// Sleep settings (`poorwill area set`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleeping {
    /// The sleep mode.
    pub mode: Option<String>,
    /// Milliseconds after which a staged sleep is saved.
    pub delay_ms: Option<u64>,
    /// The name under which the next sleep is kept as a snapshot.
    pub next_snapshot: Option<String>,
    /// Failed wakes in a row after which the snapshot wakes no more; 0: no limit.
    pub snapshot_tries: Option<u32>,
    /// Time that a power-on waits for a key, in ms.
    pub snapshot_key_ms: Option<u32>,
}

/// Damage to the last disk, with the machine off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// The disk ends in the middle of the image's data.
    Truncate,
    /// All of the image's data is overwritten with zeros.
    ZeroData,
    /// The whole sleep area is overwritten with random bytes.
    RandomArea,
    /// Both copies of the partition table are overwritten with zeros.
    NoTable,
    /// The whole disk becomes swap, as by `mkswap`, which keeps the first KiB.
    WholeSwap,
    /// A partition is added that overlaps the sleep area's last MiB.
    Overlap,
    /// The sleep area begins at block 1, with the partition table.
    OnTable,
    /// One bit of a place is inverted, in the part of the set with this index.
    Part(usize, Place),
    /// The part of the set with this index is forged.
    Forge(usize, Forgery),
    /// One bit of a place is inverted.
    #[serde(untagged)]
    Flip(Place),
}

/// Reads `plan.toml`.
///
/// # Errors
///
/// A field is missing, unknown, or of another type.
pub fn load_plan() -> anyhow::Result<Plan> {
    read_plan(include_str!("../plan.toml")).context("tests/plan.toml")
}

/// Parses a plan, and completes each row from its `defaults`.
///
/// # Errors
///
/// As of [`load_plan`].
pub fn read_plan(text: &str) -> anyhow::Result<Plan> {
    let mut plan: toml::Table = text.parse()?;
    let defaults = plan.remove("defaults").context("no defaults")?;
    let defaults = defaults.as_table().context("defaults are not a table")?;
    let rows = plan.get_mut("rows").and_then(toml::Value::as_array_mut);
    for row in rows.context("no rows")? {
        let row = row.as_table_mut().context("a row is not a table")?;
        let has_plugin = row.get("plugin").and_then(toml::Value::as_bool) == Some(true);
        let implied = ["loader", "lasting_memory"].map(|key| (key.to_owned(), has_plugin.into()));
        let has_domains = row.contains_key("domains");
        let no_guest = has_domains.then(|| ("guest".to_owned(), "nothing".into()));
        for (key, value) in implied.into_iter().chain(no_guest).chain(defaults.clone()) {
            row.entry(key).or_insert(value);
        }
    }
    Ok(plan.try_into()?)
}
