//! Poorwill beside its peers: on one machine, with the same guest and the same
//! memory in use, in turns.
//!
//! For each machine two guests are booted. In each round the one sleeps and wakes,
//! moves as many bytes plainly, and, on as much memory, Linux hibernates; the other
//! one, with the same contents, is saved and restored by QEMU. That one has its
//! root on virtio-blk and on a disk of its own, for QEMU saves no machine with an
//! NVMe controller.

mod figures;
mod guest;
mod peers;
mod plan;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::ProgressBar;

pub use figures::{
    Case, ColdBoot, Comparison, Hibernation, PlainCopy, QemuCycle, Sleep, Wake, gib, rate,
};
use guest::Guest;
use peers::{KINDS, Saved, copy_on_host, settle};
pub use plan::{Room, Size, USUAL, combinations};

use crate::disk::NewDisk;
use crate::interrupt;
use crate::machine::qmp::SaveKind;
use crate::machine::{DEBIAN_COMMAND_LINE, Disk, Machine, Qemu};
use crate::paths;
use crate::size::Bytes;

/// Where page data begins in a sleep area, and what partitions are aligned to.
const IMAGE_AT: u64 = 4 << 20;
const ALIGNMENT: u64 = 1 << 20;

/// What Linux needs to hibernate as fast as it can: what is in memory does not
/// compress, and `platform` is nothing that firmware offers.
pub(super) const HIBERNATION_WORDS: &str = "resume=PARTLABEL=swap hibernate=nocompress";
/// The kernel that loads the hibernated one runs on one hart: on more, it often
/// loses the disk's interrupts as it begins, and waits for ever.
pub(super) const RESUME_WORDS: &str = "maxcpus=1";
/// These and the rest, for people.
const HIBERNATION_SETTINGS: &str = "resume=PARTLABEL=swap written to /sys/power/resume by the \
     initramfs, hibernate=nocompress, /sys/power/disk=shutdown, /sys/power/image_size=all of RAM; \
     maxcpus=1 for the kernel that loads";

/// What the host copies plainly of an image, at most: enough to tell its rate.
const MOST_ON_HOST: u64 = 1 << 30;

/// Hibernations that fail are not tried for ever: each takes minutes.
pub(super) const MAX_FAILED_HIBERNATIONS: usize = 2;

/// Choices of the comparison.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The firmware to measure.
    pub firmware: PathBuf,
    /// Where disks may be made; removed by the caller.
    pub folder: PathBuf,
    /// How often each case is measured.
    pub rounds: u32,
    /// How often hibernation is: in the first case with half a GiB or more in use
    /// that it can do, as it takes half a minute each time.
    pub hibernations: u32,
    /// Harts of the machines.
    pub harts: u32,
    /// The machines.
    pub sizes: Vec<Size>,
}

/// Measures into `results`, which has what was measured before a failure too.
///
/// # Errors
///
/// What failed, with the console's end.
pub fn measure(
    options: &CompareOptions,
    results: &mut Option<Comparison>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let qemu = Qemu::find()?;
    let guest = paths::Guest::find()?;
    let comparison = results.insert(Comparison {
        rounds: options.rounds,
        harts: options.harts,
        hibernation_settings: HIBERNATION_SETTINGS.into(),
        ..Comparison::default()
    });
    for &installed_mib in &distinct(options.sizes.iter().map(|size| size.installed_mib)) {
        let mut sizes = options.sizes.clone();
        sizes.retain(|size| size.installed_mib == installed_mib);
        let room = Room::of(&options.folder)?;
        sizes.retain(|&size| match room.refuses(size) {
            Some(reason) => {
                tell(&format!("left out: {reason}"));
                comparison.left_out.push(reason);
                false
            }
            None => true,
        });
        sizes.sort_unstable();
        let Some(largest) = sizes.last() else {
            continue;
        };
        let folder = tempfile::tempdir_in(&options.folder)?;
        let bench = MachineBench {
            options,
            qemu: &qemu,
            guest: &guest,
            installed_mib,
            largest_mib: largest.used_mib,
            folder: folder.path(),
            tell,
        };
        let measured = bench.measure(&sizes, &mut comparison.cases);
        measured.map_err(|error| {
            let full = Room::of(folder.path()).is_ok_and(|room| room.disk_mib < 64);
            match full {
                true => error.context(format!("no room left in {}", options.folder.display())),
                false => error,
            }
        })?;
    }
    Ok(())
}

fn distinct(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The guest that QEMU has saved, and how it is to be saved in a round.
struct Peer<'p> {
    saved: &'p mut Saved,
    kinds: &'p [SaveKind],
}

/// One machine and its peer, booted once, with more and more memory in use.
struct MachineBench<'b> {
    options: &'b CompareOptions,
    qemu: &'b Qemu,
    guest: &'b paths::Guest,
    installed_mib: u64,
    /// What will be in use at last.
    largest_mib: u64,
    folder: &'b Path,
    tell: &'b dyn Fn(&str),
}

impl MachineBench<'_> {
    fn tell(&self, what: &str) {
        (self.tell)(&format!("{} GiB: {what}", gib(self.installed_mib)));
    }

    /// Adds a case for each of `sizes`, which ascend.
    fn measure(&self, sizes: &[Size], cases: &mut Vec<Case>) -> anyhow::Result<()> {
        let machine = self.machine()?;
        self.tell("cold boots");
        let (mut guest, boot) = Guest::cold_boot(&machine, self.qemu)?;
        let (mut saved, peer_boot) = Saved::prepare(self.qemu, &self.peer()?, self.folder)?;
        for &size in sizes {
            let mut case = Case {
                installed_mib: size.installed_mib,
                used_mib: size.used_mib,
                cold_boots: vec![boot, peer_boot],
                ..Case::default()
            };
            let name = case.name();
            self.tell(&format!("filling memory: {name}"));
            saved.fill(self.qemu, size.used_mib)?;
            let hibernated = cases
                .iter()
                .any(|case| !case.hibernations.is_empty() || !case.failed_hibernations.is_empty());
            let hibernations = match size.can_hibernate() && size.used_mib >= 512 && !hibernated {
                true => self.options.hibernations,
                false => 0,
            };
            for round in 1..=self.options.rounds {
                let hibernates = round <= hibernations
                    && case.failed_hibernations.len() < MAX_FAILED_HIBERNATIONS;
                // Its stream is the slower way, and moves as much again: seen once.
                let kinds = match round {
                    1 => &KINDS[..],
                    _ => &KINDS[KINDS.len() - 1..],
                };
                let peer = Peer {
                    saved: &mut saved,
                    kinds,
                };
                let measured = self.round(&mut case, guest, &machine, peer, hibernates);
                guest = measured.with_context(|| format!("{name}, round {round}"))?;
                self.tell(&round_text(round, &case));
            }
            cases.push(case);
        }
        guest.off()
    }

    fn round(
        &self,
        case: &mut Case,
        mut guest: Guest,
        machine: &Machine,
        peer: Peer<'_>,
        hibernates: bool,
    ) -> anyhow::Result<Guest> {
        // The round before has left more in use: what it read from disks.
        guest.fill(case.used_mib)?;
        let mut guest = self.sleep_and_wake(case, guest, machine, peer)?;
        let bytes = case.wakes.last().map_or(0, |wake| wake.loaded_bytes);
        case.plain.push(self.copy_plainly(&mut guest, bytes)?);
        match hibernates {
            true => self.hibernate_and_resume(case, guest, machine),
            false => Ok(guest),
        }
    }

    /// While the guest sleeps, its peer is restored and saved in each way.
    fn sleep_and_wake(
        &self,
        case: &mut Case,
        mut guest: Guest,
        machine: &Machine,
        peer: Peer<'_>,
    ) -> anyhow::Result<Guest> {
        let mut sleep = guest.sleep()?;
        case.qemu
            .extend(peer.saved.cycle_each(self.qemu, peer.kinds)?);
        settle(&self.disk())?;
        let (guest, wake, kernel_down) = Guest::wake(machine, self.qemu)?;
        sleep.kernel_ms = kernel_down;
        case.sleeps.push(sleep);
        case.wakes.push(wake);
        Ok(guest)
    }

    fn copy_plainly(&self, guest: &mut Guest, bytes: u64) -> anyhow::Result<PlainCopy> {
        let disk = &self.disk();
        let mut plain = guest.plain(bytes)?;
        // The sleep area is the last partition, behind the swap.
        let length = fs::metadata(disk).context("looking at the disk")?.len();
        let area = length - ALIGNMENT - self.room().0;
        let host_bytes = bytes.min(MOST_ON_HOST);
        let (read, write) = copy_on_host(disk, area + IMAGE_AT, area - self.room().0, host_bytes)?;
        plain.host_bytes = host_bytes;
        plain.host_read_ms = read.as_secs_f64() * 1e3;
        plain.host_write_ms = write.as_secs_f64() * 1e3;
        Ok(plain)
    }

    /// Linux may not come back, which is a finding, and no reason to give up: the
    /// machine is then made anew.
    fn hibernate_and_resume(
        &self,
        case: &mut Case,
        guest: Guest,
        machine: &Machine,
    ) -> anyhow::Result<Guest> {
        match self.hibernate(guest, machine) {
            Ok((guest, measured)) => {
                case.hibernations.push(measured);
                Ok(guest)
            }
            Err(error) => {
                interrupt::check()?;
                let why = format!("{error:#}");
                self.tell(&format!("Linux does not come back from hibernation: {why}"));
                case.failed_hibernations.push(why);
                remove(&self.disk())?;
                let (guest, _) = Guest::cold_boot(&self.machine()?, self.qemu)?;
                Ok(guest)
            }
        }
    }

    fn hibernate(
        &self,
        mut guest: Guest,
        machine: &Machine,
    ) -> anyhow::Result<(Guest, Hibernation)> {
        let mut measured = guest.hibernate()?;
        settle(&self.disk())?;
        let mut machine = machine.clone();
        machine.command_line = format!("{} {RESUME_WORDS}", machine.command_line);
        let guest = Guest::resume(&machine, self.qemu, &mut measured)?;
        Ok((guest, measured))
    }

    /// The machine that sleeps: root, swap and sleep area on one NVMe disk.
    fn machine(&self) -> anyhow::Result<Machine> {
        self.make_disk(&self.disk(), Some(self.room()), vec![self.room()])?;
        Ok(self.with_disk(Disk::nvme(self.disk())))
    }

    fn disk(&self) -> PathBuf {
        self.folder.join("machine.disk")
    }

    /// For two images, or for one hibernation.
    fn room(&self) -> Bytes {
        Bytes::mib(2 * (self.largest_mib + 256))
    }

    /// The machine that QEMU saves: the same root, on a disk of its own.
    fn peer(&self) -> anyhow::Result<Machine> {
        let disk = self.folder.join("peer.disk");
        self.make_disk(&disk, None, Vec::new())?;
        Ok(self.with_disk(Disk::virtio(disk)))
    }

    fn make_disk(&self, disk: &Path, swap: Option<Bytes>, areas: Vec<Bytes>) -> anyhow::Result<()> {
        let new = NewDisk {
            root: Some(self.guest.root.clone()),
            swap,
            areas,
        };
        Ok(new.create(disk, false, &ProgressBar::hidden())?)
    }

    fn with_disk(&self, disk: Disk) -> Machine {
        Machine {
            harts: self.options.harts,
            memory: Bytes::mib(self.installed_mib),
            kernel: Some(self.guest.kernel.clone()),
            initrd: Some(self.guest.initrd.clone()),
            command_line: format!("{DEBIAN_COMMAND_LINE} {HIBERNATION_WORDS} poorwill.compare"),
            disks: vec![disk],
            ..Machine::new(&self.options.firmware)
        }
        .for_figures()
    }
}

fn round_text(round: u32, case: &Case) -> String {
    let last = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{:.2} s", ms / 1e3));
    format!(
        "{} used, round {round}: sleep {}, wake {}, QEMU's restore {}, hibernation {}",
        gib(case.used_mib),
        last(case.sleeps.last().map(|sleep| sleep.total_ms)),
        last(case.wakes.last().map(|wake| wake.total_ms)),
        last(case.qemu.last().map(|cycle| cycle.restore_ms)),
        last(
            case.hibernations
                .get(round as usize - 1)
                .map(|one| one.total_ms)
        ),
    )
}

/// Removes what is no longer needed; it may be large.
fn remove(file: &Path) -> anyhow::Result<()> {
    fs::remove_file(file).with_context(|| format!("removing {}", file.display()))
}
