//! The write-back caches of a machine whose RAM is persistent: what is lost with the power
//! unless it is written back.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use crate::bound::{self, TooMany};
use crate::node::{can_run_os, cell, is_any, is_enabled, phandle, reg};

/// How many caches a machine may have behind those of its harts.
pub const MAX_CACHES: usize = 96;

/// How many are behind each other, at most.
const MAX_LEVELS: usize = 4;

/// How deep they are looked for: below buses, and below harts.
const DEPTH: u8 = 3;

/// One cache, or several behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of all.
    pub bytes: u64,
    /// They replace the line that was used least recently (`poorwill,lru`).
    pub is_lru: bool,
}

impl Cache {
    const NONE: Cache = Cache {
        bytes: 0,
        is_lru: true,
    };

    /// Both, one behind the other.
    const fn and(self, other: Cache) -> Cache {
        Cache {
            bytes: self.bytes.saturating_add(other.bytes),
            is_lru: self.is_lru && other.is_lru,
        }
    }

    /// One that is as large as either, and as hard to empty.
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

/// The write-back caches. Where one is `None`, the tree does not tell the size of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataCaches {
    /// The first data cache of a hart, the largest.
    pub first: Option<Cache>,
    /// What is behind it and not behind the first hart's, the largest: caches that a hart
    /// has to itself, and those of other clusters.
    pub further: Option<Cache>,
    /// What is behind the first hart's first one, and what no hart names as its own.
    pub shared: Option<Cache>,
    /// The registers of the one cache controller that writes a line back by its physical
    /// address (SiFive's composable cache, Flush64).
    pub flush_registers: Option<u64>,
}

/// What says how large caches are, and by what they replace.
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
    /// Its controller's registers, if it writes lines back.
    flush_registers: Option<u64>,
    is_first_harts: bool,
    is_anybodys: bool,
}

type Levels = ArrayVec<Level, MAX_CACHES>;

/// Reads them.
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
            // One that is named and not there is behind the first hart's, too.
            found.shared = own;
        }
    }
    let shared = levels
        .iter()
        .filter(|level| level.is_first_harts || !level.is_anybodys);
    found.shared = shared.fold(found.shared, |all, level| {
        join(all, level.cache, Cache::and)
    });
    Ok(found)
}

/// What names the next cache.
const NEXT: &str = "next-level-cache";

fn join(
    one: Option<Cache>,
    other: Option<Cache>,
    both: impl FnOnce(Cache, Cache) -> Cache,
) -> Option<Cache> {
    Some(both(one?, other?))
}

/// A hart's first cache. What all have in common may stand in their parent (Devicetree
/// Specification, 3.7).
fn first(cpu: FdtNode<'_>, cpus: FdtNode<'_>) -> Option<Cache> {
    let bytes = cell(cpu, FIRST_SIZE).or_else(|| cell(cpus, FIRST_SIZE))?;
    Some(Cache {
        bytes: bytes.into(),
        is_lru: cpu.property(LRU).or_else(|| cpus.property(LRU)).is_some(),
    })
}

/// Follows a hart's caches from the one behind its first. Returns those that are not the
/// first hart's: none for that hart itself, unless one is missing.
fn follow(mut next: Option<u32>, is_first: bool, levels: &mut Levels) -> Option<Cache> {
    let mut own = Some(Cache::NONE);
    for _ in 0..MAX_LEVELS {
        let Some(phandle) = next else {
            return own;
        };
        let mut all = levels.iter_mut();
        let level = all.find(|level| level.phandle == Some(phandle))?;
        level.is_anybodys = true;
        level.is_first_harts |= is_first;
        if !level.is_first_harts {
            own = join(own, level.cache, Cache::and);
        }
        next = level.next;
    }
    // More than there are: they go around.
    next.map_or(own, |_| None)
}

/// Finds the nodes of caches below a bus.
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
                is_first_harts: false,
                is_anybodys: false,
            };
            bound::push(levels, "caches", level)?;
        }
        if depth > 0 {
            collect(node, depth - 1, levels)?;
        }
    }
    Ok(())
}

/// The only one.
fn one(mut all: impl Iterator<Item = u64>) -> Option<u64> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
