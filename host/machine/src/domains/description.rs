use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;

use super::sleep::{self, Sleep};
use crate::Socket;
use crate::size::Bytes;

/// The description of a machine with domains.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domains {
    /// RAM of each domain that names none.
    pub memory: Bytes,
    /// Harts of each domain that names none.
    #[serde(default = "two")]
    pub harts: u32,
    /// What the machine sleeps on without power. A description names an NVMe disk, `sleep_disk`.
    #[serde(rename = "sleep_disk", default, deserialize_with = "sleep::disk")]
    pub sleep: Option<Sleep>,
    /// The domains, by their sockets.
    #[serde(rename = "domain")]
    pub domains: Vec<DomainOnQemu>,
}

/// A domain. It has either a kernel or a critical guest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainOnQemu {
    /// Its name: letters, digits and dashes.
    pub name: String,
    /// Its place in the order of waking; the lowest wakes first.
    pub wake_order: u32,
    /// RAM: a multiple of 256 MiB, at most 2 GiB.
    pub memory: Option<Bytes>,
    /// RAM that the domain uses: a power of two from 16 MiB. The rest is no domain's. All by
    /// default.
    pub uses: Option<Bytes>,
    /// Harts: 1, 2 or 4.
    pub harts: Option<u32>,
    /// A Linux `Image`.
    pub kernel: Option<PathBuf>,
    /// Linux's initial RAM file system.
    pub initrd: Option<PathBuf>,
    /// Linux's command line.
    #[serde(default)]
    pub append: String,
    /// NVMe disks of Linux: raw files.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
    /// Options of `-netdev user`, such as `hostfwd=…`, for a network card of Linux; may be empty.
    pub network: Option<String>,
    /// The program of the critical guest (guest/critical).
    pub critical: Option<PathBuf>,
    /// The socket that leads to the critical guest's serial line; without one the line is idle.
    pub trigger: Option<PathBuf>,
    /// Time of each heartbeat's work, in microseconds.
    #[serde(default)]
    pub load_us: u32,
    /// Time after which the critical guest's timer ends a sleep, in ms.
    pub wake_after_ms: Option<u32>,
    /// Whether it may put the machine to sleep: one domain, the master.
    #[serde(default)]
    pub may_sleep: bool,
    /// Whether it may reset the machine or switch it off.
    #[serde(default)]
    pub may_reset: bool,
}

/// First address of RAM.
const RAM: u64 = 0x8000_0000;

/// Offset of a program in its domain's memory. The firmware has the first 2 MiB of socket 0.
pub(super) const PROGRAM: u64 = 0x20_0000;

/// Offset of an initial RAM file system, at most; and bytes for the tree before it.
const INITRD: u64 = 0x800_0000;
const TREE_BYTES: u64 = 0x10_0000;

fn two() -> u32 {
    2
}

impl Domains {
    /// The harts and the memory of a domain.
    pub(super) fn socket(&self, domain: &DomainOnQemu) -> Socket {
        Socket {
            harts: domain.harts.unwrap_or(self.harts),
            memory: domain.memory.unwrap_or(self.memory),
        }
    }

    /// Addresses of the memory that a domain uses. Past the last socket they are empty.
    pub(super) fn memory_of(&self, socket: usize) -> Range<u64> {
        let before = self.domains.iter().take(socket);
        let start = RAM
            + before
                .map(|domain| self.socket(domain).memory.0)
                .sum::<u64>();
        let own = self.domains.get(socket);
        start..start + own.map_or(0, |domain| self.used(domain).0)
    }

    /// Bytes of memory that a domain uses.
    pub(super) fn used(&self, domain: &DomainOnQemu) -> Bytes {
        domain.uses.unwrap_or(self.socket(domain).memory)
    }

    /// Offset of the initial RAM file system in a domain's memory.
    pub(super) fn initrd_of(&self, socket: usize) -> u64 {
        INITRD.min(self.used(&self.domains[socket]).0 / 2)
    }

    /// Offset of the device tree in a domain's memory.
    pub(super) fn tree_of(&self, socket: usize) -> u64 {
        self.initrd_of(socket) - TREE_BYTES
    }

    /// IDs of a domain's harts.
    pub(super) fn harts_of(&self, socket: usize) -> Range<u32> {
        let before = self.domains[..socket].iter();
        let first = before.map(|domain| self.socket(domain).harts).sum();
        first..first + self.socket(&self.domains[socket]).harts
    }
}
