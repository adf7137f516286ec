//! A machine of two sockets, with a domain on each.

mod critical;
mod entries;
mod growing;
mod linux;
mod orders;
mod start;
mod steady;
mod tree;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use poorwill_machine::qmp::socket_folder;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, Socket, tree as of_qemu};
use tempfile::TempDir;

pub use critical::{Critical, Part, Seen, Together, Waker};
pub use entries::{Entries, entries};
pub use linux::{BesideLinux, ENDS, End, LINUX};
pub use orders::{BOUNDS, NEVER, Role};
pub use start::{Left, instructions_to_linux};
pub use steady::{Beat, Late, Wake, wakes};
pub use tree::{BRIDGE_DEVICE, BUS, Bus, CARD_DEVICE, DISK_BUS, EDU};
use tree::{MEMORY, ORDERS, PROGRAM};

/// Harts of a socket, unless a role needs more.
const HARTS: u32 = 2;

/// Bytes of the disk that a bus may have.
const DISK_BYTES: u64 = 1 << 20;

/// The machine, before it is switched on.
#[derive(Debug)]
pub struct Pair {
    machine: Machine,
    /// Its files.
    folder: TempDir,
}

impl Pair {
    /// A machine with this `bus`, whose domains run the hostile guest in these `roles`.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn hostile(
        qemu: &Qemu,
        firmware: &Path,
        guest: &Path,
        roles: [Role; 2],
        bus: &Bus,
    ) -> anyhow::Result<Self> {
        let harts = roles[0].harts().max(roles[1].harts());
        let mut pair = Pair::new(firmware, harts, bus)?;
        let attacker = roles.iter().position(|role| role.is_attacker());
        let partition = tree::partition(attacker, bus, harts, false) + bus.source;
        pair.write_tree(qemu, &partition)?;
        for (socket, role) in roles.into_iter().enumerate() {
            pair.load_hostile(socket, harts, guest, role)?;
        }
        Ok(pair)
    }

    /// The sockets, an IOMMU, and the bus.
    fn new(firmware: &Path, harts: u32, bus: &Bus) -> anyhow::Result<Self> {
        let socket = Socket {
            harts,
            memory: Bytes::mib(128),
        };
        let machine = Machine::new(firmware).on_sockets([socket; 2]);
        let mut pair = Pair {
            machine,
            folder: socket_folder()?,
        };
        pair.machine.add("-machine", "iommu-sys=on");
        let disk = pair.at("disk");
        File::create(&disk)?.set_len(DISK_BYTES)?;
        let drive = format!("if=none,id=disk,format=raw,file={}", disk.display());
        pair.machine.add("-drive", drive);
        for device in bus.devices {
            pair.machine.add("-device", device);
        }
        Ok(pair)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the machine's tree.
    fn write_tree(&mut self, qemu: &Qemu, partition: &str) -> anyhow::Result<()> {
        let file = self.at("tree");
        of_qemu::write(&self.machine, qemu, partition, &file)?;
        self.machine.add("-dtb", file);
        Ok(())
    }

    fn load_hostile(
        &mut self,
        socket: usize,
        harts: u32,
        guest: &Path,
        role: Role,
    ) -> anyhow::Result<()> {
        let file = self.at(&format!("orders{socket}"));
        fs::write(&file, orders::orders(socket, harts, role))?;
        self.load(socket, &file, guest);
        Ok(())
    }

    /// Loads a guest, and its device tree or orders.
    fn load(&mut self, socket: usize, argument: &Path, guest: &Path) {
        for (file, offset) in [(argument, ORDERS), (guest, PROGRAM)] {
            let (file, place) = (file.display(), MEMORY[socket] + offset);
            let loader = format!("loader,file={file},addr={place:#x},force-raw=on");
            self.machine.add("-device", loader);
        }
    }

    /// Switches the machine on. The folder has its files.
    ///
    /// # Errors
    ///
    /// QEMU does not start.
    pub fn power_on(self, qemu: &Qemu) -> anyhow::Result<(RunningMachine, TempDir)> {
        let running = self.machine.power_on(qemu, PowerOn::default())?;
        Ok((running, self.folder))
    }
}
