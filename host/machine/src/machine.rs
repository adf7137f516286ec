//! The description of a machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::board::{Board, Interrupts};
use crate::power_supply::PowerSupply;
use crate::quoted::quoted;
use crate::size::Bytes;

/// The kernel command line of all Debian guests: the root by its partition label, the console on
/// the serial port.
pub const DEBIAN_COMMAND_LINE: &str = "root=PARTLABEL=root rw console=ttyS0";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// An NVMe controller with one namespace. Sleep areas must be on this bus.
    Nvme,
    /// virtio-blk on PCI. It serves the root of PLIC machines, where the stock NVMe driver loses
    /// interrupts.
    Virtio,
}

/// How the host's page cache is used for a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostCache {
    /// The cache is used, and the machine's flush writes it out.
    #[default]
    Flushed,
    /// The cache is bypassed (`O_DIRECT`), so that figures measure the disk and not the host's
    /// memory. Some file systems do not support it.
    Bypassed,
    /// The cache is used, and a flush does nothing, so that no write waits for the host's disk.
    Unflushed,
}

/// One disk: a raw file or a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub file: PathBuf,
    pub bus: Bus,
    pub host_cache: HostCache,
    /// Properties of a QEMU blkdebug driver between file and disk, if set: `{"inject-error":
    /// [...]}` as in QEMU's QMP reference (`BlockdevOptionsBlkdebug`).
    pub faults: Option<serde_json::Map<String, serde_json::Value>>,
    /// A node of QEMU's block layer in place of the file, if set (`BlockdevOptions`).
    pub node: Option<serde_json::Value>,
    /// ID of the QEMU throttle group that limits the disk, if set.
    pub throttle: Option<String>,
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
            node: None,
            throttle: None,
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
            node: None,
            throttle: None,
        }
    }
}

/// A RISC-V machine in QEMU.
#[derive(Clone, Debug)]
pub struct Machine {
    pub board: Board,
    /// Number of the OS's harts, 1 to [`Board::most_harts`]. A device tree may take harts from the
    /// OS, such as the [weak core](crate::tree::weak_core).
    pub harts: u32,
    /// RAM in whole MiB.
    pub memory: Bytes,
    /// The file of its memory, which then survives the power-off; created if missing. QEMU must not
    /// overwrite it at power-on: see [`loader`](Self::loader).
    pub ram: Option<PathBuf>,
    pub interrupts: Interrupts,
    /// The machine-mode firmware (`-bios`).
    pub firmware: PathBuf,
    /// The next stage (`-kernel`): a Linux `Image`, U-Boot, a test kernel.
    pub kernel: Option<PathBuf>,
    /// Initial RAM file system for a Linux kernel.
    pub initrd: Option<PathBuf>,
    /// The kernel command line; none if empty.
    pub command_line: String,
    /// Disks, in the order in which the OS numbers them.
    pub disks: Vec<Disk>,
    /// The file of the board's second flash, where the firmware keeps the machine's sealing key;
    /// see [`crate::flash`]. Without it that flash is blank at each power-on, and images are plain.
    pub flash: Option<PathBuf>,
    /// The file of the board's first flash, from which the machine then starts; see
    /// [`crate::flash::make_loader`]. Its program loads the kernel, the initial RAM file system and
    /// the command line. Without it QEMU writes them into memory at each power-on.
    pub loader: Option<PathBuf>,
    /// A power supply with a power-fail line. [`ram`](Self::ram) is then persistent, and the next
    /// power-on resumes the machine. The power supply has a loader of its own.
    pub power_supply: Option<PowerSupply>,
    /// Whether a reset ends QEMU instead of restarting the machine.
    pub exit_on_reset: bool,
    /// Whether QEMU starts and gets all memory from the host before the machine is switched on.
    /// Times count from the switch, so figures leave out both, which a board does not have.
    pub prepared: bool,
    /// Further arguments for QEMU; they come last.
    pub extra_arguments: Vec<OsString>,
}

/// A socket of a machine. It has interrupt controllers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Number of harts, at least 1.
    pub harts: u32,
    /// RAM in whole MiB.
    pub memory: Bytes,
}

impl Machine {
    /// On `virt`: two harts, 2 GiB, AIA, no disk and no kernel, with `firmware`.
    #[must_use]
    pub fn new(firmware: impl Into<PathBuf>) -> Self {
        Self::on(Board::default(), firmware)
    }

    /// The same on another board, with the board's interrupt controllers.
    #[must_use]
    pub fn on(board: Board, firmware: impl Into<PathBuf>) -> Self {
        Machine {
            board,
            harts: 2,
            memory: Bytes::gib(2),
            ram: None,
            interrupts: board.interrupts(),
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

    /// The same machine for figures: [`Machine::prepared`], and without the host's cache.
    #[must_use]
    pub fn for_figures(mut self) -> Self {
        self.prepared = true;
        self.set_host_cache(HostCache::Bypassed);
        self
    }

    /// Adds an argument of QEMU, and its value.
    pub fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.extra_arguments.extend([option.into(), value.into()]);
    }

    /// Makes QEMU load a file into memory, as it is.
    pub fn load(&mut self, file: &Path, address: u64) {
        let file = quoted(file);
        let loader = format!("loader,file={file},addr={address:#x},force-raw=on");
        self.add("-device", loader);
    }

    /// The same machine with these sockets, by their numbers. They follow each other in the harts'
    /// IDs and in memory.
    #[must_use]
    pub fn on_sockets(mut self, sockets: impl IntoIterator<Item = Socket>) -> Self {
        (self.harts, self.memory) = (0, Bytes(0));
        for (number, Socket { harts, memory }) in sockets.into_iter().enumerate() {
            let (first, size) = (self.harts, memory.in_mib());
            self.harts += harts;
            self.memory.0 += memory.0;
            let backend = format!("memory-backend-ram,id=socket{number},size={size}M");
            self.add("-object", backend);
            let cpus = format!("{first}-{}", self.harts - 1);
            let node = format!("node,nodeid={number},memdev=socket{number},cpus={cpus}");
            self.add("-numa", node);
        }
        self
    }

    /// The same machine for counts of instructions. Each instruction advances its clock by two to
    /// the power of `shift` ns. While all harts wait, the clock jumps to the next timer. Flushes
    /// do not wait for the host's disk.
    #[must_use]
    pub fn for_counts(mut self, shift: u32) -> Self {
        self.add("-icount", format!("shift={shift},sleep=off"));
        self.set_host_cache(HostCache::Unflushed);
        self
    }

    /// The same machine for cuts. Flushes do not wait for the host's disk, which takes longer than
    /// the hold-up. Files survive the end of QEMU, but not a power cut of the host.
    #[must_use]
    pub fn for_cuts(mut self) -> Self {
        self.set_host_cache(HostCache::Unflushed);
        self
    }

    fn set_host_cache(&mut self, cache: HostCache) {
        (self.disks.iter_mut()).for_each(|disk| disk.host_cache = cache);
    }
}
