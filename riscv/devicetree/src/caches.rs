//! The write-back caches of a machine with persistent RAM. Their dirty lines are lost with the
//! power unless they are written back.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use crate::bound::{self, TooMany};
use crate::node::{can_run_os, cell, is_any, is_enabled, phandle, reg};

/// Maximum number of caches of a machine after its harts' first-level caches.
pub const MAX_CACHES: usize = 96;

/// Maximum number of cache levels after a hart's first.
const MAX_LEVELS: usize = 4;

/// Search depth for cache nodes: below buses, and below harts.
const DEPTH: u8 = 3;

/// A cache, or a chain of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of all caches in the chain.
    pub bytes: u64,
    /// Replacement is least recently used (`poorwill,lru`) in each of them.
    pub is_lru: bool,
}

impl Cache {
    const NONE: Cache = Cache {
        bytes: 0,
        is_lru: true,
    };

    /// Adds the next cache of a chain.
    const fn and(self, other: Cache) -> Cache {
        Cache {
            bytes: self.bytes.saturating_add(other.bytes),
            is_lru: self.is_lru && other.is_lru,
        }
    }

    /// A cache as large as the larger one; LRU only if both are.
    const fn at_least(self, other: Cache) -> Cache {
        let bytes = match self.bytes > other.bytes {
            true => self.bytes,
            false => other.bytes,
        };
        Cache {
            bytes,
            is_lru: self.is_lru && other.is_lru,
        }
    }
}

/// The write-back caches. `None`: the tree does not state the sizes of all these caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataCaches {
    /// The largest first data cache of a hart.
    pub first: Option<Cache>,
    /// The largest chain of caches after a hart's first-level cache that the first hart does not
    /// share: private caches, or those of another cluster.
    pub further: Option<Cache>,
    /// The caches after the first hart's first-level cache, and caches that no hart names.
    pub shared: Option<Cache>,
    /// Registers of the only cache controller that writes a line back by its physical address
    /// (SiFive's composable cache, Flush64).
    pub flush_registers: Option<u64>,
}

/// Properties for the size and the replacement policy of a cache.
const FIRST_SIZE: &str = "d-cache-size";
const SIZE: &str = "cache-size";
const LRU: &str = "poorwill,lru";

/// Controllers with Flush64 (Devicetree binding `cache/sifive,ccache0.yaml`).
const WITH_FLUSH: [&str; 5] = [
    "sifive,ccache0",
    "sifive,fu540-c000-ccache",
    "sifive,fu740-c000-ccache",
    "starfive,jh7110-ccache",
    "microchip,mpfs-ccache",
];

/// A cache with a node of its own.
#[derive(Clone, Copy, Debug)]
struct Level {
    phandle: Option<u32>,
    cache: Option<Cache>,
    next: Option<u32>,
    /// Registers of its controller, if it writes lines back.
    flush_registers: Option<u64>,
    is_of_first_hart: bool,
    is_named: bool,
}

type Levels = ArrayVec<Level, MAX_CACHES>;

/// Reads the caches.
///
/// # Errors
///
/// [`TooMany`].
pub(crate) fn caches(root: FdtNode<'_>) -> Result<DataCaches, TooMany> {
    let mut levels = Levels::new();
    collect(root, DEPTH, &mut levels)?;
    let mut found = DataCaches {
        first: Some(Cache::NONE),
        further: Some(Cache::NONE),
        shared: Some(Cache::NONE),
        flush_registers: one(levels.iter().filter_map(|level| level.flush_registers)),
    };
    let Some(cpus) = root.child("cpus") else {
        return Ok(found);
    };
    let harts = cpus.children().filter(|cpu| can_run_os(*cpu));
    for (place, cpu) in harts.enumerate() {
        found.first = join(found.first, first(cpu, cpus), Cache::at_least);
        let next = cell(cpu, NEXT).or_else(|| cell(cpus, NEXT));
        let own = follow(next, place == 0, &mut levels);
        found.further = join(found.further, own, Cache::at_least);
        if place == 0 {
            // `None` if the first hart names a cache that the tree lacks: the size of its chain is
            // then unknown.
            found.shared = own;
        }
    }
    let shared = levels
        .iter()
        .filter(|level| level.is_of_first_hart || !level.is_named);
    found.shared = shared.fold(found.shared, |all, level| {
        join(all, level.cache, Cache::and)
    });
    Ok(found)
}

/// The property that names the next cache.
const NEXT: &str = "next-level-cache";

fn join(
    one: Option<Cache>,
    other: Option<Cache>,
    both: impl FnOnce(Cache, Cache) -> Cache,
) -> Option<Cache> {
    Some(both(one?, other?))
}

/// A hart's first cache. Properties that all harts share may be in their parent (Devicetree
/// Specification, 3.7).
fn first(cpu: FdtNode<'_>, cpus: FdtNode<'_>) -> Option<Cache> {
    let bytes = cell(cpu, FIRST_SIZE).or_else(|| cell(cpus, FIRST_SIZE))?;
    Some(Cache {
        bytes: bytes.into(),
        is_lru: cpu.property(LRU).or_else(|| cpus.property(LRU)).is_some(),
    })
}

/// Follows a hart's caches after its first-level cache, and returns those that the first hart does
/// not share. For the first hart itself the chain is empty, unless a cache is missing.
fn follow(mut next: Option<u32>, is_first: bool, levels: &mut Levels) -> Option<Cache> {
    let mut own = Some(Cache::NONE);
    for _ in 0..MAX_LEVELS {
        let Some(phandle) = next else {
            return own;
        };
        let mut all = levels.iter_mut();
        let level = all.find(|level| level.phandle == Some(phandle))?;
        level.is_named = true;
        level.is_of_first_hart |= is_first;
        if !level.is_of_first_hart {
            own = join(own, level.cache, Cache::and);
        }
        next = level.next;
    }
    // No machine has a chain this long: the chain is circular.
    next.map_or(own, |_| None)
}

fn collect(bus: FdtNode<'_>, depth: u8, levels: &mut Levels) -> Result<(), TooMany> {
    for node in bus.children().filter(|node| is_enabled(*node)) {
        if is_any(node, &["cache"]) || is_any(node, &WITH_FLUSH) {
            let bytes = cell(node, SIZE);
            let level = Level {
                phandle: phandle(node),
                cache: bytes.map(|bytes| Cache {
                    bytes: bytes.into(),
                    is_lru: node.property(LRU).is_some(),
                }),
                next: cell(node, NEXT),
                flush_registers: is_any(node, &WITH_FLUSH)
                    .then(|| reg(node, 0).map(|range| range.start))
                    .flatten(),
                is_of_first_hart: false,
                is_named: false,
            };
            bound::push(levels, "caches", level)?;
        }
        if depth > 0 {
            collect(node, depth - 1, levels)?;
        }
    }
    Ok(())
}

/// The only item; `None` if there are several.
fn one(mut all: impl Iterator<Item = u64>) -> Option<u64> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
