//! What a machine is made of ([`Machine`]).

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::power_supply::PowerSupply;
use crate::size::Bytes;

/// The kernel command line of every Debian guest: root by its partition label,
/// console on the serial port.
pub const DEBIAN_COMMAND_LINE: &str = "root=PARTLABEL=root rw console=ttyS0";

/// The kernel command line of every tiny guest, which has no root.
pub const TINY_COMMAND_LINE: &str = "console=ttyS0";

/// The interrupt controllers of a machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Interrupts {
    /// APLIC and IMSIC: devices send messages (MSI).
    #[default]
    Aia,
    /// PLIC: devices pull wires.
    Plic,
}

/// How a disk is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// An NVMe controller with one namespace. The only bus for sleep areas.
    Nvme,
    /// virtio-blk on PCI. For the root of PLIC machines, where NVMe loses
    /// interrupts under the stock driver.
    Virtio,
}

/// What the host's page cache does for a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostCache {
    /// It is used, and a flush of the machine's writes it out.
    #[default]
    Flushed,
    /// It is bypassed (`O_DIRECT`), which not every file system can: for figures that
    /// are the disk's, and not the host's memory's.
    Bypassed,
    /// It is used, and a flush does nothing: no disk is awaited.
    Unflushed,
}

/// One disk: a raw file or a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The file or block device.
    pub file: PathBuf,
    /// How it is attached.
    pub bus: Bus,
    /// How its file is read and written.
    pub host_cache: HostCache,
    /// Further properties of QEMU's blkdebug driver, put between file and disk
    /// if set: `{"inject-error": [...]}` as in QEMU's QMP reference
    /// (`BlockdevOptionsBlkdebug`).
    pub faults: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Disk {
    /// A disk behind an NVMe controller.
    #[must_use]
    pub fn nvme(file: impl Into<PathBuf>) -> Self {
        Disk {
            file: file.into(),
            bus: Bus::Nvme,
            host_cache: HostCache::default(),
            faults: None,
        }
    }

    /// A virtio-blk disk.
    #[must_use]
    pub fn virtio(file: impl Into<PathBuf>) -> Self {
        Disk {
            file: file.into(),
            bus: Bus::Virtio,
            host_cache: HostCache::default(),
            faults: None,
        }
    }
}

/// A RISC-V machine as QEMU's `virt` board makes it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number of harts, 1 to 512.
    pub harts: u32,
    /// RAM, whole MiB.
    pub memory: Bytes,
    /// The file that is its memory, which then outlives its power; made when it is
    /// missing. Whatever starts the machine must leave it alone: see
    /// [`loader`](Self::loader).
    pub ram: Option<PathBuf>,
    /// The interrupt controllers.
    pub interrupts: Interrupts,
    /// The machine-mode firmware (`-bios`).
    pub firmware: PathBuf,
    /// The next stage (`-kernel`): a Linux `Image`, U-Boot, a test kernel.
    pub kernel: Option<PathBuf>,
    /// Initial RAM file system for a Linux kernel.
    pub initrd: Option<PathBuf>,
    /// The kernel command line; none if empty.
    pub command_line: String,
    /// Disks in the order in which the OS numbers them.
    pub disks: Vec<Disk>,
    /// The file behind the board's second flash, where the firmware keeps the
    /// machine's sealing key; see [`crate::flash`]. Without one that flash
    /// forgets, and images are plain.
    pub flash: Option<PathBuf>,
    /// The file behind the board's first flash, in which the next stage then starts; see
    /// [`crate::flash::make_loader`]. Kernel, initial RAM file system and command line are
    /// its to load: without it QEMU writes them into memory at each power-on.
    pub loader: Option<PathBuf>,
    /// Its power supply, if that says when the power fails: then [`ram`](Self::ram) is
    /// persistent, and the machine goes on there at the next power-on. It gets a loader
    /// of its own.
    pub power_supply: Option<PowerSupply>,
    /// Whether a reset ends QEMU instead of starting the machine again.
    pub exit_on_reset: bool,
    /// Whether QEMU is ready, and has all of the machine's memory from the host, before
    /// the machine is switched on, which is when time begins. On a board there is
    /// no emulator to be started, and no host that gives memory only when it is
    /// touched: for figures that are the machine's.
    pub prepared: bool,
    /// Passed to QEMU as they are, last.
    pub extra_arguments: Vec<OsString>,
}

impl Machine {
    /// Two harts, 2 GiB, AIA, no disk and no kernel, under `firmware`.
    #[must_use]
    pub fn new(firmware: impl Into<PathBuf>) -> Self {
        Machine {
            harts: 2,
            memory: Bytes::gib(2),
            ram: None,
            interrupts: Interrupts::default(),
            firmware: firmware.into(),
            kernel: None,
            initrd: None,
            command_line: String::new(),
            disks: Vec::new(),
            flash: None,
            loader: None,
            power_supply: None,
            exit_on_reset: false,
            prepared: false,
            extra_arguments: Vec::new(),
        }
    }

    /// The same, for figures: with [`Machine::prepared`], and past the host's cache.
    #[must_use]
    pub fn for_figures(mut self) -> Self {
        self.prepared = true;
        self.set_host_cache(HostCache::Bypassed);
        self
    }

    /// The same, for counts of instructions: the machine's clock goes on by two to the
    /// power of `shift` nanoseconds with each, and by the whole of every wait; so its
    /// disks are not waited for longer than they must be.
    #[must_use]
    pub fn for_counts(mut self, shift: u32) -> Self {
        let counting = format!("shift={shift},sleep=off");
        self.extra_arguments
            .extend(["-icount".into(), counting.into()]);
        self.set_host_cache(HostCache::Unflushed);
        self
    }

    /// The same, for a machine whose power supply says when the power fails: its disks
    /// are not waited for while the host writes their files out, which takes longer than
    /// the hold-up lasts. Its memory's file is not waited for, either: both outlive QEMU,
    /// and not the host.
    #[must_use]
    pub fn for_cuts(mut self) -> Self {
        self.set_host_cache(HostCache::Unflushed);
        self
    }

    fn set_host_cache(&mut self, cache: HostCache) {
        (self.disks.iter_mut()).for_each(|disk| disk.host_cache = cache);
    }
}
