//! What a machine with domains sleeps on: a PCI function of machine mode's own.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use super::entries::{Bar, NVME, entry, property};
use crate::Disk;
use crate::arguments::block_node;
use crate::quoted::quoted;
use crate::size::Bytes;

/// The slot on the first bus. Its wired interrupt, which is off, is source 35: neither the critical
/// guest's nor that of a Linux on the first socket.
const SLOT: u32 = 7;

/// Addresses of the registers. They lie before the windows of the bridges.
const REGISTERS: u64 = 0x4400_0000;

/// Start of the host bridge's window above 4 GiB, on machines with at most 14 GiB of RAM.
const HIGH_WINDOW: u64 = 0x4_0000_0000;

const MOST_MEMORY: Bytes = Bytes::gib(16);
const LEAST_MEMORY: Bytes = Bytes::mib(1);

/// The device that a machine with domains sleeps on. No domain reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// An NVMe controller with this disk, which has one sleep area. Its bus does not count.
    Nvme(Disk),
    /// Memory of a PCI device (`ivshmem-plain`) that a file backs. QEMU creates a missing one.
    Memory {
        /// The file.
        file: PathBuf,
        /// Its length: a power of two from 1 MiB to 16 GiB.
        bytes: Bytes,
    },
}

impl Sleep {
    /// The file that keeps the image.
    #[must_use]
    pub fn file(&self) -> &Path {
        match self {
            Sleep::Nvme(disk) => &disk.file,
            Sleep::Memory { file, .. } => file,
        }
    }

    /// QEMU's arguments for the device.
    #[must_use]
    pub fn arguments(&self) -> [(&'static str, String); 2] {
        match self {
            Sleep::Nvme(disk) => [
                ("-blockdev", block_node("sleep", disk).to_string()),
                (
                    "-device",
                    format!("nvme,serial=sleep,drive=sleep,addr={SLOT}"),
                ),
            ],
            Sleep::Memory { file, bytes } => [
                (
                    "-object",
                    format!(
                        "memory-backend-file,id=sleep,share=on,mem-path={},size={}",
                        quoted(file),
                        bytes.0
                    ),
                ),
                ("-device", format!("ivshmem-plain,memdev=sleep,addr={SLOT}")),
            ],
        }
    }

    /// The property `poorwill,functions` of the node of the domains.
    #[must_use]
    pub fn functions(&self) -> String {
        let at = |bar: &Bar, address| entry(SLOT << 11, bar, address);
        let entries = match self {
            Sleep::Nvme(_) => NVME.iter().map(|bar| at(bar, REGISTERS)).collect(),
            Sleep::Memory { bytes, .. } => vec![
                at(&(0x10, 2, 0x100, false), REGISTERS),
                at(&(0x18, 3, bytes.0, true), HIGH_WINDOW),
            ],
        };
        property(&entries)
    }
}

/// Returns whether a device can have this much memory.
pub(super) fn is_good(bytes: Bytes) -> bool {
    bytes.0.is_power_of_two() && (LEAST_MEMORY..=MOST_MEMORY).contains(&bytes)
}

/// Reads `sleep_disk`, a file's name.
pub(super) fn disk<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Sleep>, D::Error> {
    PathBuf::deserialize(from).map(|file| Some(Sleep::Nvme(Disk::nvme(file))))
}
