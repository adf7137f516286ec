//! The sizes of machines to measure, and whether this host has room for them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use poorwill_machine::resources;
use poorwill_machine::size::Bytes;

/// A machine's RAM, and its memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    pub installed_mib: u64,
    pub used_mib: u64,
}

/// The default sizes. A large machine has each amount of memory in use, and smaller machines have
/// enough to show that installed memory costs nothing.
pub const USUAL: [Size; 8] = [
    Size::new(1024, 512),
    Size::new(4096, 256),
    Size::new(4096, 512),
    Size::new(8192, 256),
    Size::new(8192, 512),
    Size::new(8192, 1024),
    Size::new(8192, 2048),
    Size::new(8192, 4096),
];

/// The sizes of a short run, enough to judge each target.
pub const QUICK: [Size; 3] = [
    Size::new(1024, 512),
    Size::new(4096, 256),
    Size::new(4096, 512),
];

/// Memory for the kernel's reservations and for programs, beside the filled memory.
const KEPT_MIB: u64 = 256;

/// Disk space for three written root partitions, for partition tables, and as a reserve.
const DISK_MIB: u64 = 2560;

impl Size {
    #[must_use]
    pub const fn new(installed_mib: u64, used_mib: u64) -> Self {
        Size {
            installed_mib,
            used_mib,
        }
    }

    /// Whether a machine of `installed_mib` can have `used_mib` in use.
    #[must_use]
    pub const fn fits(self) -> bool {
        self.used_mib + KEPT_MIB <= self.installed_mib
    }

    /// Whether Linux can hibernate. It copies the used memory within memory, except for pages that
    /// it can swap out.
    #[must_use]
    pub const fn can_hibernate(self) -> bool {
        2 * self.used_mib + KEPT_MIB <= self.installed_mib
    }

    /// Memory of the host that the machine needs: the guest's, all from the start, and QEMU's own.
    /// The page cache of its files is not counted.
    const fn memory_mib(self) -> u64 {
        self.installed_mib + 768
    }

    /// Disk space of the host that the machine needs: two slots, the swap, and QEMU's present and
    /// next file.
    const fn disk_mib(self) -> u64 {
        5 * (self.used_mib + 128) + DISK_MIB
    }
}

/// All combinations of `installed` and `used` that fit.
#[must_use]
pub fn combinations(installed: &[u64], used: &[u64]) -> Vec<Size> {
    let mut sizes: Vec<Size> = installed
        .iter()
        .flat_map(|&installed_mib| {
            used.iter()
                .map(move |&used_mib| Size::new(installed_mib, used_mib))
        })
        .filter(|size| size.fits())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The sizes at which Linux hibernates, from `sizes`, which must ascend. They are at most two sizes
/// of the smallest machine with room for it, since each hibernation takes half a minute. Large
/// machines are unsuitable: after a resume the kernel counts 200 MiB as used that hold nothing.
/// Later cases would then have less in use than they claim.
#[must_use]
pub fn hibernating(sizes: &[Size]) -> Vec<Size> {
    let mut able: Vec<Size> = (sizes.iter().copied())
        .filter(|size| size.can_hibernate())
        .collect();
    let smallest = able.first().map(|size| size.installed_mib);
    able.retain(|size| Some(size.installed_mib) == smallest);
    able.truncate(2);
    able
}

/// The size with the least memory in use, in the smallest machine. A boot leaves little memory in
/// use, so boots are compared with this size's wakes.
#[must_use]
pub fn least(sizes: &[Size]) -> Option<Size> {
    let key = |size: &Size| (size.used_mib, size.installed_mib);
    sizes.iter().copied().min_by_key(key)
}

/// Free memory and disk space of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub memory_mib: u64,
    pub disk_mib: u64,
}

impl Room {
    /// Reads the host's free memory, and the free space of `folder`'s file system.
    ///
    /// # Errors
    ///
    /// The kernel does not report the memory, or the file system its space.
    pub fn of(folder: &Path) -> anyhow::Result<Self> {
        let disk = resources::disk_free(folder)
            .with_context(|| format!("reading the free space in {}", folder.display()))?;
        let memory = resources::memory_available().context("/proc/meminfo has no MemAvailable")?;
        Ok(Room {
            memory_mib: memory.0 >> 20,
            disk_mib: disk.0 >> 20,
        })
    }

    /// The sizes for which there is room, ascending, and the reasons against the others. The disks
    /// of all machines exist at once, but only one machine runs at a time.
    #[must_use]
    pub fn choose(mut self, sizes: &[Size]) -> (Vec<Size>, Vec<String>) {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
        for of_a_machine in sizes.chunk_by(|one, next| one.installed_mib == next.installed_mib) {
            let mut disk_mib = 0;
            for &size in of_a_machine {
                match self.refuses(size) {
                    Some(reason) => left_out.push(reason),
                    None => {
                        chosen.push(size);
                        disk_mib = size.disk_mib();
                    }
                }
            }
            self.disk_mib -= disk_mib;
        }
        (chosen, left_out)
    }

    /// Why there is no room for `size`; `None`: there is.
    fn refuses(self, size: Size) -> Option<String> {
        let lacks = |what: &str, has: u64, wants: u64| {
            format!(
                "{} MiB used of {} MiB: needs {} of {what}, and {} are free",
                size.used_mib,
                size.installed_mib,
                Bytes::mib(wants),
                Bytes::mib(has)
            )
        };
        if self.memory_mib < size.memory_mib() {
            return Some(lacks("memory", self.memory_mib, size.memory_mib()));
        }
        if self.disk_mib < size.disk_mib() {
            return Some(lacks("disk", self.disk_mib, size.disk_mib()));
        }
        None
    }
}

/// Options of the comparison.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    pub firmware: PathBuf,
    /// Folder for disks. The caller removes it.
    pub folder: PathBuf,
    /// Number of measurements of each case.
    pub rounds: u32,
    /// Number of hibernations, in the cases of [`hibernating`].
    pub hibernations: u32,
    pub harts: u32,
    pub sizes: Vec<Size>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_is_measured() {
        let all = combinations(&[1024, 4096, 8192], &[256, 512, 1024, 2048, 4096]);
        assert_eq!(all.len(), 2 + 4 + 5);
        assert!(all.contains(&Size::new(1024, 512)) && !all.contains(&Size::new(1024, 1024)));
        assert!(all.contains(&Size::new(8192, 4096)) && !all.contains(&Size::new(4096, 4096)));
        assert_eq!(combinations(&[1024, 1024], &[256]), [Size::new(1024, 256)]);
        assert!(USUAL.iter().chain(&QUICK).all(|size| all.contains(size)));
        assert!(USUAL.is_sorted() && QUICK.is_sorted());
    }

    #[test]
    fn linux_hibernates_in_the_smallest_machine_that_can() {
        let cases = [Size::new(4096, 256), Size::new(4096, 512)];
        assert_eq!(hibernating(&USUAL), cases);
        assert_eq!(hibernating(&QUICK), cases);
        assert_eq!(hibernating(&[Size::new(1024, 512)]), []);
        assert_eq!(least(&USUAL), Some(cases[0]));
        assert_eq!(least(&[]), None);
    }

    #[test]
    fn a_host_without_room_says_what_it_lacks() {
        let room = Room {
            memory_mib: 5000,
            disk_mib: 6000,
        };
        assert_eq!(room.refuses(Size::new(1024, 256)), None);
        let disk = room.refuses(Size::new(4096, 1024)).unwrap();
        assert!(disk.contains("of disk"), "{disk}");
        let memory = room.refuses(Size::new(8192, 256)).unwrap();
        assert!(memory.contains("of memory"), "{memory}");
        assert!(Room::of(Path::new("/")).unwrap().memory_mib > 0);
    }

    #[test]
    fn machines_have_their_disks_beside_each_other() {
        let (small, large) = (Size::new(1024, 512), Size::new(4096, 512));
        let room = |disk_mib| Room {
            memory_mib: 5000,
            disk_mib,
        };
        let both = 2 * small.disk_mib();
        assert_eq!(room(both).choose(&[large, small]).0, [small, large]);
        let (chosen, left_out) = room(both - 1).choose(&[large, small]);
        assert_eq!((chosen, left_out.len()), (vec![small], 1));
    }
}
