//! `poorwill run`: starts a machine on the terminal, or wakes it.

mod board;
mod domains;
mod executor;
mod power;
mod weak_core;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use poorwill_machine::area::{SlotReport, find_sleeping};
use poorwill_machine::disk::{NewDisk, check_unused, look_at};
use poorwill_machine::flash::{self, Flash, FlashError};
use poorwill_machine::paths::{self, Guest, Kernel, Tiny};
use poorwill_machine::size::Bytes;
use poorwill_machine::{
    Board, DEBIAN_COMMAND_LINE, Disk, Interrupts, Machine, Part, Qemu, interactive,
};

use self::power::{CutRun, PowerArguments};
use crate::devices::warnings;
use crate::progress;

/// Start a machine on this terminal, or wake it if it sleeps.
///
/// Without --disk it is your own Debian machine, created at the first use. In the guest, `systemctl
/// suspend` puts it to sleep: the firmware saves it to its disk and switches it off. The same
/// command again wakes it.
///
/// All keys go to the guest, including Ctrl-C. Ctrl-A x pulls the plug, Ctrl-A c switches to QEMU's
/// monitor and back, Ctrl-A Ctrl-A sends a Ctrl-A.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill run                                     your Debian machine
  poorwill run --memory 4G --harts 4               with other sizes: keep them while it sleeps
  poorwill run --tiny                              for a quick look: busybox, no root file system
  poorwill run --disk machine.disk --append quiet
  poorwill run --disk machine.disk --flash machine.flash
  poorwill run --kernel u-boot.bin --disk machine.disk
  poorwill run --tiny --harts 1 --weak-core        a weak core resumes the kernel after a sleep
  poorwill run --machine sifive_u --harts 4        SiFive's board, without disks
  poorwill run --machine sifive_u --weak-core      the same, whose E51 is the weak core
  poorwill run -- -nic user,model=virtio-net-pci   with network
  poorwill run --domains machine.toml              a machine with domains
  poorwill run --domains machine.toml -- -s        the same, for a debugger
  poorwill run --tiny --cut --ram machine.ram      with persistent memory; in another terminal:
  poorwill psu fail machine.ram                    let its power fail

Exit status: 0 switched off, asleep, or cut, 1 failed, 2 wrong usage.")]
pub(crate) struct Run {
    /// QEMU's board. `sifive_u` has no disks, so its guest is the one of --tiny, which sleeps in
    /// powered memory until a key is pressed
    #[arg(long, value_enum, value_name = "BOARD", default_value_t)]
    machine: Board,
    /// Run a Linux without a root file system, which starts in seconds: a stock kernel and busybox.
    /// It sleeps with `echo mem > /sys/power/state`
    #[arg(long, conflicts_with_all = ["kernel", "initrd", "interrupts"])]
    tiny: bool,
    /// Run the machine with domains that this file describes (docs/domains.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tiny", "disk", "flash", "extra_disk", "kernel", "initrd", "append", "memory", "harts", "interrupts", "cut"])]
    domains: Option<PathBuf>,
    /// Add a hart without an MMU, the weak core, on a PLIC; on `sifive_u` it is the E51. It runs the
    /// OS's kernel around a sleep in powered memory. The OS has at most 8 harts. With --tiny there is
    /// no disk, unless --disk names one, so each sleep is of this kind, until a key is pressed
    #[arg(long, conflicts_with_all = ["domains", "cut"])]
    weak_core: bool,
    /// Disk with the partitions `root` and `sleep`: a raw file or a block device [default: your own
    /// machine's]
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// Flash for the key that seals the machine's images; created if missing
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Another NVMe disk; may be repeated
    #[arg(long, value_name = "FILE")]
    extra_disk: Vec<PathBuf>,
    /// Next stage: a Linux `Image`, U-Boot, ... [default: Debian's kernel]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// The kernel's initial RAM file system [default: Debian's, unless --kernel is given]
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Text to add to the kernel command line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append: Option<String>,
    /// RAM of the machine
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    memory: Bytes,
    /// Number of the OS's harts; `sifive_u` has 1 to 4 beside its E51
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=512))]
    harts: u32,
    /// Interrupt controllers; with `plic` the root is on virtio-blk, since NVMe loses interrupts
    /// there [default: aia, on `sifive_u` plic]
    #[arg(long, value_enum)]
    interrupts: Option<Interrupts>,
    #[arg(long, value_name = "FILE", help = super::FIRMWARE_HELP)]
    firmware: Option<PathBuf>,
    #[command(flatten)]
    power: PowerArguments,
    /// Arguments for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENT")]
    qemu_arguments: Vec<OsString>,
}

impl Run {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        (self.check_board().and_then(|()| self.check_weak_core()))
            .unwrap_or_else(|error| error.exit());
        if let Some(file) = &self.domains {
            let firmware = self.firmware.clone().map_or_else(paths::firmware, Ok)?;
            return domains::run(file, &self.qemu_arguments, &firmware);
        }
        let qemu = Qemu::find()?;
        for warning in warnings(&self.qemu_arguments) {
            eprintln!("poorwill: warning: {warning}");
        }
        // A machine for cuts takes no tree of the user.
        if !self.power.cut {
            executor::check(&self.qemu_arguments)?;
        }
        let has_weak_core = self.weak_core;
        let mut machine = self.into_machine()?;
        for disk in &machine.disks {
            look_at(&disk.file)?;
            check_unused(&disk.file)?;
        }
        if let Some(flash) = &machine.flash {
            prepare_flash(flash)?;
        }
        let _tree = match has_weak_core {
            true => Some(executor::with_weak_core(&mut machine, &qemu)?),
            false => None,
        };
        if let Some(image) = sleeping(&machine)? {
            announce(&image, machine.flash.is_some())?;
        }
        if std::io::stdin().is_terminal() {
            eprintln!("poorwill: Ctrl-A x ends QEMU, all other keys go to the machine");
        }
        let cut = CutRun::begin(&machine)?;
        let status = interactive::run(&machine, &qemu)?;
        if let Some(cut) = cut
            && cut.end(status)?
        {
            return Ok(ExitCode::SUCCESS);
        }
        if !status.success() {
            bail!("QEMU failed ({status}): see its message above");
        }
        match sleeping(&machine)?.filter(|image| image.wakes) {
            Some(image) => eprintln!(
                "\npoorwill: asleep ({}): run the same command again to wake it",
                size_of(&image)
            ),
            None => eprintln!("\npoorwill: switched off"),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn into_machine(self) -> anyhow::Result<Machine> {
        let board = self.machine;
        let has_disks = board.has(Part::Disks);
        let is_tiny = self.tiny || !has_disks;
        let interrupts = match self.weak_core {
            // With AIA no executor is possible, and the option is refused.
            true => Interrupts::Plic,
            false => self.interrupts.unwrap_or_else(|| board.interrupts()),
        };
        let firmware = self.firmware.map_or_else(paths::firmware, Ok)?;
        paths::readable("firmware", &firmware)?;
        let (kernel, initrd) = match self.kernel {
            Some(kernel) => (kernel, self.initrd),
            None if is_tiny => {
                let tiny = Tiny::find(Kernel::Stock)?;
                (tiny.kernel, Some(self.initrd.unwrap_or(tiny.initrd)))
            }
            None => {
                let guest = Guest::find(Kernel::Stock)?;
                (guest.kernel, Some(self.initrd.unwrap_or(guest.initrd)))
            }
        };
        paths::readable("kernel", &kernel)?;
        if let Some(initrd) = &initrd {
            paths::readable("initrd", initrd)?;
        }
        let mut disks = match (self.disk, is_tiny) {
            // With cuts, all contents of the machine are in its memory file, so it needs no disk.
            // A sleep on a disk would leave the weak core nothing to do.
            (None, true) if self.power.cut || self.weak_core || !has_disks => Vec::new(),
            (None, true) => vec![tiny_disk(self.memory)?],
            (named, _) => disks(named, interrupts, self.memory)?,
        };
        disks.extend(self.extra_disk.into_iter().map(Disk::nvme));
        let is_cut = self.power.cut;
        let machine = Machine {
            harts: self.harts,
            memory: self.memory,
            power_supply: self.power.supply()?,
            ram: self.power.ram,
            interrupts,
            kernel: Some(kernel),
            initrd,
            command_line: command_line(board, is_tiny, interrupts, self.append.as_deref()),
            disks,
            flash: self.flash,
            extra_arguments: self.qemu_arguments,
            ..Machine::on(board, firmware)
        };
        Ok(if is_cut { machine.for_cuts() } else { machine })
    }
}

/// Creates the machine's flash if it is missing, and checks it.
fn prepare_flash(file: &Path) -> Result<(), FlashError> {
    if !file.exists() {
        eprintln!("poorwill: creating {}", file.display());
        flash::make_blank(file)?;
    }
    flash::check_unused(file)?;
    Flash::read(file).map(drop)
}

/// Prints which image the machine finds at its start, and whether the image wakes.
fn announce(image: &SlotReport, has_flash: bool) -> anyhow::Result<()> {
    let size = size_of(image);
    match &image.refused {
        None if image.is_sealed() && !has_flash => bail!(
            "this machine sleeps ({size}), and its image is sealed: give its flash with --flash FILE; without it the machine would boot cold, and the image would be lost"
        ),
        None => eprintln!("poorwill: this machine sleeps ({size}): waking it"),
        Some(reason) => eprintln!(
            "poorwill: the image on its disk ({size}) does not wake, and will be discarded: {reason}"
        ),
    }
    Ok(())
}

/// The image that the machine will find, read from its disks and its flash. It is printed before
/// the start, because the console belongs to the user after it.
fn sleeping(machine: &Machine) -> Result<Option<SlotReport>, FlashError> {
    let mut flash = machine.flash.as_deref().map(Flash::read).transpose()?;
    Ok(machine
        .disks
        .iter()
        .find_map(|disk| find_sleeping(&disk.file, flash.as_mut())))
}

fn size_of(image: &SlotReport) -> String {
    let bytes = Bytes(image.image_bytes.unwrap_or_default());
    match image
        .image
        .as_ref()
        .and_then(|image| image.saved_at.as_deref())
    {
        Some(time) => format!("{bytes}, saved {time}"),
        None => bytes.to_string(),
    }
}

fn command_line(board: Board, tiny: bool, interrupts: Interrupts, more: Option<&str>) -> String {
    let main = match tiny {
        false => DEBIAN_COMMAND_LINE,
        true => board.tiny_command_line(),
    };
    let plic = match interrupts {
        // Linux must not use NVMe here: it loses interrupts. The firmware alone uses the disk with
        // the sleep area.
        Interrupts::Plic if board.has(Part::Disks) => Some("poorwill.skip_modules=nvme"),
        _ => None,
    };
    let words = [Some(main), plic, more];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The user's disk, or the disk of the user's own machine, which is created if missing.
fn disks(
    named: Option<PathBuf>,
    interrupts: Interrupts,
    memory: Bytes,
) -> anyhow::Result<Vec<Disk>> {
    let root_on: fn(PathBuf) -> Disk = match interrupts {
        Interrupts::Aia => |file| Disk::nvme(file),
        Interrupts::Plic => |file| Disk::virtio(file),
    };
    if let Some(file) = named {
        return Ok(vec![root_on(file)]);
    }
    let folder = paths::data()?;
    let area = sleep_area_for(memory);
    match interrupts {
        Interrupts::Aia => {
            let file = folder.join("debian.disk");
            make_once(&file, true, Some(area))?;
            Ok(vec![root_on(file)])
        }
        Interrupts::Plic => {
            let (root, sleep) = (
                folder.join("debian-plic.disk"),
                folder.join("debian-plic-sleep.disk"),
            );
            make_once(&root, true, None)?;
            make_once(&sleep, false, Some(area))?;
            Ok(vec![root_on(root), Disk::nvme(sleep)])
        }
    }
}

/// The disk of the tiny machine, with only a sleep area. It is created if missing.
fn tiny_disk(memory: Bytes) -> anyhow::Result<Disk> {
    let file = paths::data()?.join("tiny.disk");
    make_once(&file, false, Some(sleep_area_for(memory)))?;
    Ok(Disk::nvme(file))
}

/// Bytes of a sleep area for two images of a machine that uses all of `memory`.
fn sleep_area_for(memory: Bytes) -> Bytes {
    Bytes(2 * memory.0 + Bytes::mib(256).0).max(Bytes::gib(3))
}

fn make_once(file: &Path, with_root: bool, area: Option<Bytes>) -> anyhow::Result<()> {
    if file.exists() {
        return Ok(());
    }
    let root = if with_root {
        Some(Guest::find(Kernel::Stock)?.root)
    } else {
        None
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    eprintln!("poorwill: creating {}", file.display());
    let bar = progress::bytes("copying Debian", 0);
    NewDisk {
        root,
        swap: None,
        areas: area.into_iter().collect(),
    }
    .create(file, false, &bar)?;
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plic_machines_leave_nvme_to_the_firmware() {
        let debian = command_line(Board::Virt, false, Interrupts::Aia, None);
        assert_eq!(debian, DEBIAN_COMMAND_LINE);
        let tiny = command_line(Board::Virt, true, Interrupts::Aia, Some("quiet"));
        assert_eq!(tiny, "console=ttyS0 quiet");
        assert_eq!(
            command_line(Board::Virt, false, Interrupts::Plic, Some("quiet")),
            "root=PARTLABEL=root rw console=ttyS0 poorwill.skip_modules=nvme quiet"
        );
        let sifive = command_line(Board::SifiveU, true, Interrupts::Plic, None);
        assert_eq!(sifive, "console=ttySIF0");
    }
}
