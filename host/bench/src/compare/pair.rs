//! A machine that sleeps, and its peer, which QEMU saves.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::ProgressBar;
use poorwill_machine::disk::NewDisk;
use poorwill_machine::interrupt;
use poorwill_machine::paths;
use poorwill_machine::size::Bytes;
use poorwill_machine::{DEBIAN_COMMAND_LINE, Disk, Machine, Qemu};

use crate::NotMeasured;

use super::figures::{Case, ColdBoot, Hibernation, PlainCopy, Sleep, gib};
use super::guest::{Guest, Woken};
use super::peers::{KINDS, Saved, copy_on_host, remove, settle};
use super::plan::{CompareOptions, Size};

/// Kernel parameters for Linux's fastest hibernation. It does not compress, as the memory's
/// contents do not compress. `platform` mode needs firmware that offers it, and this one does not.
pub(crate) const HIBERNATION_WORDS: &str = "resume=PARTLABEL=swap hibernate=nocompress";
/// The kernel that loads the hibernated one runs on one hart. On several it often loses the disk's
/// first interrupts, and waits for ever.
pub(crate) const RESUME_WORDS: &str = "maxcpus=1";

/// Failed hibernations after which no further one is tried: each takes minutes.
pub(crate) const MAX_FAILED_HIBERNATIONS: usize = 2;

/// Offset of page data in a sleep area. It is also the alignment of partitions.
const IMAGE_AT: u64 = 4 << 20;
const ALIGNMENT: u64 = 1 << 20;

/// The most bytes of an image that the host copies: enough to compute a rate.
const MOST_ON_HOST: u64 = 256 << 20;

/// Sleeps and wakes in a round; each other measurement happens once. The rate of a shared disk
/// varies from second to second, so one cycle is too little to compare rates.
const CYCLES: u32 = 2;

/// Settings that all pairs share.
#[derive(Clone, Copy)]
pub(super) struct Setting<'s> {
    pub(super) options: &'s CompareOptions,
    /// Folder of all pairs' disks.
    pub(super) folder: &'s Path,
    pub(super) qemu: &'s Qemu,
    pub(super) guest: &'s paths::Guest,
    /// The sizes at which Linux hibernates.
    pub(super) hibernating: &'s [Size],
    /// The size with a cold boot in each round.
    pub(super) booting: Option<Size>,
    pub(super) tell: &'s dyn Fn(&str),
}

/// A machine and its peer. Both boot once, and their memory in use then grows from case to case.
/// Between rounds both are off, so that other pairs can run.
pub(super) struct Pair<'s> {
    setting: Setting<'s>,
    layout: Layout<'s>,
    /// The machine's sizes, one for each case.
    sizes: Vec<Size>,
    machine: Machine,
    /// The figures of the sleep from which the machine has not woken yet.
    asleep: Sleep,
    peer: Saved,
    cold_boots: Vec<ColdBoot>,
}

/// A case that is being measured.
pub(super) struct Going {
    pub(super) case: Case,
    /// Number of rounds in which Linux hibernates.
    hibernations: u32,
    /// Whether each round has a cold boot.
    boots: bool,
}

impl<'s> Pair<'s> {
    /// Boots the machine and its peer. All `sizes` must have the same RAM.
    pub(super) fn new(setting: Setting<'s>, sizes: &[Size]) -> anyhow::Result<Self> {
        let layout = Layout::new(setting, sizes)?;
        layout.tell("cold boots");
        let machine = layout.machine(&layout.disk())?;
        let (mut guest, boot) = Guest::cold_boot(&machine, setting.qemu)?;
        let asleep = guest.sleep()?;
        let peer = layout.peer()?;
        let (peer, peer_boot) = Saved::prepare(setting.qemu, &peer, &layout.folder)?;
        Ok(Pair {
            setting,
            layout,
            sizes: sizes.to_vec(),
            machine,
            asleep,
            peer,
            cold_boots: vec![boot, peer_boot],
        })
    }

    /// A new case with `used_mib` in use, if it is one of this machine's sizes.
    pub(super) fn case(&self, used_mib: u64) -> Option<Going> {
        let of_case = |size: &&Size| size.used_mib == used_mib;
        let &size = self.sizes.iter().find(of_case)?;
        let boots = self.setting.booting == Some(size);
        let case = Case {
            installed_mib: size.installed_mib,
            used_mib: size.used_mib,
            cold_boots: match boots {
                true => Vec::new(),
                false => self.cold_boots.clone(),
            },
            ..Case::default()
        };
        let hibernations = match self.setting.hibernating.contains(&size) {
            true => self.setting.options.hibernations,
            false => 0,
        };
        Some(Going {
            case,
            hibernations,
            boots,
        })
    }

    /// Starts a case: fills the memory of both machines.
    pub(super) fn begin(&mut self, case: &Case) -> anyhow::Result<()> {
        let used_mib = case.used_mib;
        self.layout
            .tell(&format!("filling memory: {}", case.name()));
        let (guest, woken) = Guest::wake(&self.machine, self.setting.qemu)?;
        if let Some(error) = woken.silent {
            return Err(error);
        }
        self.asleep = self.layout.fill_and_sleep(guest, used_mib)?;
        self.peer.fill(self.setting.qemu, used_mib)
    }

    /// Runs one round; the first has number 1.
    pub(super) fn round(&mut self, going: &mut Going, round: u32) -> anyhow::Result<()> {
        let (name, before) = (going.case.name(), going.case.hibernations.len());
        self.measure(going, round)
            .with_context(|| format!("{name}, round {round}"))?;
        let case = &going.case;
        let back = case.hibernations.get(before);
        self.layout.tell(&round_text(round, case, back));
        Ok(())
    }

    fn measure(&mut self, going: &mut Going, round: u32) -> anyhow::Result<()> {
        let case = &mut going.case;
        let hibernates = round <= going.hibernations;
        for cycle in 0..CYCLES {
            let what = format!("sleep and wake, round {round}");
            if let Err(error) = self.cycle(case, hibernates && cycle == 0, &what) {
                self.layout.miss(case, &what, &error)?;
                self.start_over(case.used_mib)?;
            }
        }
        if going.boots {
            match self.layout.boot() {
                Ok(boot) => case.cold_boots.push(boot),
                Err(error) => {
                    (self.layout).miss(case, &format!("cold boot, round {round}"), &error)?
                }
            }
        }
        // QEMU's stream is slower, and moves all bytes again. So only the first round has it.
        let kinds = match round {
            1 => &KINDS[..],
            _ => &KINDS[KINDS.len() - 1..],
        };
        match self.peer.cycle_each(self.setting.qemu, kinds) {
            Ok(cycles) => case.qemu.extend(cycles),
            Err(error) => {
                let what = format!("QEMU's save and restore, round {round}");
                self.layout.miss(case, &what, &error)?;
            }
        }
        Ok(())
    }

    /// Wakes the machine, makes plain copies of an image's length, and puts it to sleep again.
    /// Errors call the cycle `what`.
    fn cycle(&mut self, case: &mut Case, hibernates: bool, what: &str) -> anyhow::Result<()> {
        settle(&self.layout.disk())?;
        let (mut guest, woken) = Guest::wake(&self.machine, self.setting.qemu)?;
        add_cycle(case, self.asleep, &woken, what);
        if let Some(error) = woken.silent {
            return Err(error);
        }
        let loaded_bytes = woken.wake.loaded_bytes;
        case.plain
            .push(self.layout.copy_plainly(&mut guest, loaded_bytes)?);
        if hibernates && case.failed_hibernations.len() < MAX_FAILED_HIBERNATIONS {
            guest = self.hibernate_and_resume(case, guest)?;
        }
        self.asleep = self.layout.fill_and_sleep(guest, case.used_mib)?;
        Ok(())
    }

    /// Creates the machine anew, and puts it to sleep with `used_mib` in use.
    fn start_over(&mut self, used_mib: u64) -> anyhow::Result<()> {
        let disk = self.layout.disk();
        remove(&disk)?;
        self.machine = self.layout.machine(&disk)?;
        let (guest, _) = Guest::cold_boot(&self.machine, self.setting.qemu)?;
        self.asleep = self.layout.fill_and_sleep(guest, used_mib)?;
        Ok(())
    }

    /// Hibernates and resumes Linux. A failed resume is a result and not an error: the machine is
    /// then created anew.
    fn hibernate_and_resume(&self, case: &mut Case, guest: Guest) -> anyhow::Result<Guest> {
        match self.hibernate(guest) {
            Ok((guest, measured)) => {
                case.hibernations.push(measured);
                Ok(guest)
            }
            Err(error) => {
                interrupt::check()?;
                let why = format!("{error:#}");
                let what = "Linux does not resume from hibernation";
                self.layout.tell(&format!("{what}: {why}"));
                case.failed_hibernations.push(why);
                remove(&self.layout.disk())?;
                let machine = self.layout.machine(&self.layout.disk())?;
                Ok(Guest::cold_boot(&machine, self.setting.qemu)?.0)
            }
        }
    }

    fn hibernate(&self, mut guest: Guest) -> anyhow::Result<(Guest, Hibernation)> {
        let mut measured = guest.hibernate()?;
        settle(&self.layout.disk())?;
        let mut machine = self.machine.clone();
        machine.command_line = format!("{} {RESUME_WORDS}", machine.command_line);
        let guest = Guest::resume(&machine, self.setting.qemu, &mut measured)?;
        Ok((guest, measured))
    }
}

/// The sizes and the folder from which a pair's machines are made.
struct Layout<'s> {
    setting: Setting<'s>,
    installed_mib: u64,
    /// The most memory in use over all cases, in MiB.
    largest_mib: u64,
    folder: PathBuf,
}

impl<'s> Layout<'s> {
    fn new(setting: Setting<'s>, sizes: &[Size]) -> anyhow::Result<Self> {
        let most = |of: fn(&Size) -> u64| sizes.iter().map(of).max().unwrap_or_default();
        let installed_mib = most(|size| size.installed_mib);
        let folder = setting.folder.join(format!("{installed_mib}-mib"));
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Layout {
            setting,
            installed_mib,
            largest_mib: most(|size| size.used_mib),
            folder,
        })
    }

    /// Records a figure that could not be measured. Ctrl-C is an error.
    fn miss(&self, case: &mut Case, what: &str, error: &anyhow::Error) -> anyhow::Result<()> {
        interrupt::check()?;
        self.tell(&format!("{what}: not measured: {error:#}"));
        case.not_had.push(NotMeasured::new(what, error));
        Ok(())
    }

    fn tell(&self, what: &str) {
        (self.setting.tell)(&format!("{} GiB: {what}", gib(self.installed_mib)));
    }

    /// Fills memory and sleeps. Earlier steps changed the memory in use, and left dirty pages on
    /// the host.
    fn fill_and_sleep(&self, mut guest: Guest, used_mib: u64) -> anyhow::Result<Sleep> {
        guest.fill(used_mib)?;
        settle(&self.disk())?;
        guest.sleep()
    }

    fn copy_plainly(&self, guest: &mut Guest, bytes: u64) -> anyhow::Result<PlainCopy> {
        let disk = &self.disk();
        let mut plain = guest.plain(bytes)?;
        // The sleep area is the disk's last partition.
        let length = fs::metadata(disk).context("looking at the disk")?.len();
        let area = length - ALIGNMENT - self.room().0;
        let host_bytes = bytes.min(MOST_ON_HOST);
        let (read, write) = copy_on_host(disk, area + IMAGE_AT, area - self.room().0, host_bytes)?;
        plain.host_bytes = host_bytes;
        plain.host_read_ms = read.as_secs_f64() * 1e3;
        plain.host_write_ms = write.as_secs_f64() * 1e3;
        Ok(plain)
    }

    /// A machine that can sleep, with root, swap and sleep area on a new NVMe disk.
    fn machine(&self, disk: &Path) -> anyhow::Result<Machine> {
        self.make_disk(disk, Some(self.room()), vec![self.room()])?;
        Ok(self.with_disk(Disk::nvme(disk)))
    }

    /// Boots a new machine, and cuts its power after redis's answer.
    fn boot(&self) -> anyhow::Result<ColdBoot> {
        let disk = self.folder.join("boot.disk");
        let boot = Guest::cold_boot(&self.machine(&disk)?, self.setting.qemu);
        remove(&disk)?;
        Ok(boot?.1)
    }

    fn disk(&self) -> PathBuf {
        self.folder.join("machine.disk")
    }

    /// Bytes for two images, or for one hibernation.
    fn room(&self) -> Bytes {
        Bytes::mib(2 * (self.largest_mib + 256))
    }

    /// The machine that QEMU saves, with the same root on a disk of its own.
    fn peer(&self) -> anyhow::Result<Machine> {
        let disk = self.folder.join("peer.disk");
        self.make_disk(&disk, None, Vec::new())?;
        Ok(self.with_disk(Disk::virtio(disk)))
    }

    fn make_disk(&self, disk: &Path, swap: Option<Bytes>, areas: Vec<Bytes>) -> anyhow::Result<()> {
        let new = NewDisk {
            root: Some(self.setting.guest.root.clone()),
            swap,
            areas,
        };
        new.create(disk, false, &ProgressBar::hidden())?;
        settle(disk)
    }

    fn with_disk(&self, disk: Disk) -> Machine {
        Machine {
            harts: self.setting.options.harts,
            memory: Bytes::mib(self.installed_mib),
            kernel: Some(self.setting.guest.kernel.clone()),
            initrd: Some(self.setting.guest.initrd.clone()),
            command_line: format!("{DEBIAN_COMMAND_LINE} {HIBERNATION_WORDS} poorwill.compare"),
            disks: vec![disk],
            ..Machine::new(&self.setting.options.firmware)
        }
        .for_figures()
    }
}

/// Adds a sleep and its wake, each with the figures that could be measured.
fn add_cycle(case: &mut Case, asleep: Sleep, woken: &Woken, what: &str) {
    if asleep.total_ms.is_none() {
        case.not_had.push(NotMeasured {
            what: format!("{what}: the sleep's time"),
            why: "the guest's line before the sleep came after the power-off".into(),
        });
    }
    case.sleeps.push(Sleep {
        kernel_ms: woken.kernel_down_ms,
        used_bytes: asleep.used_bytes.or(woken.used_bytes),
        ..asleep
    });
    case.wakes.push(woken.wake);
}

/// A line for the user about a round. `back` is its hibernation.
fn round_text(round: u32, case: &Case, back: Option<&Hibernation>) -> String {
    let last = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{:.2} s", ms / 1e3));
    format!(
        "{} used, round {round}: sleep {}, wake {}, QEMU's restore {}, hibernation {}",
        gib(case.used_mib),
        last(case.sleeps.last().and_then(|sleep| sleep.total_ms)),
        last(case.wakes.last().and_then(|wake| wake.total_ms)),
        last(case.qemu.last().map(|cycle| cycle.restore_ms)),
        last(back.map(|one| one.total_ms)),
    )
}
