//! Whether the OS would have the same memory under another firmware.
//!
//! An image holds a hash of the OS's ranges of memory, not the ranges. So the machine's
//! memory is guessed: one range, which begins where the firmware is loaded. So is the
//! number of its harts, on which the firmware's second range depends. With a right guess
//! the ranges that remain have the image's hash; a wrong one does not meet it by chance.

use poorwill_devicetree::{
    IDENTITY_RULE, MAX_HARTS, PLACEMENT_RULE, harts_fingerprint, memory_fingerprint, place,
};
use poorwill_memory::{MachineIdentity, MemoryMap, PAGE_BYTES, PhysRange};

use crate::layout::{MemoryLayout, sizes};

/// Other firmwares may have been loaded into as much: in steps of this.
const LOADED_STEP: u64 = 64 << 10;

/// How many such steps are tried: up to 4 MiB.
const LOADED_STEPS: u64 = 64;

/// What is to be expected of the memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryForecast {
    /// The image's.
    Same,
    /// Another one: the image's is that of a firmware that reserves other memory.
    Other {
        /// What this firmware reserves.
        data_bytes: u64,
    },
    /// This firmware computes the hash in another way.
    OtherIdentity { found: u16, known: u16 },
    /// This firmware places its memory by a rule that is not known here.
    OtherPlacement(u16),
    /// The machine's memory is not as was guessed.
    Unknown,
}

/// What is to be expected of the memory map of an image of `os_pages` pages, of the
/// machine `saved`, which has a power-fail line or none.
pub(crate) fn forecast(
    layout: &MemoryLayout,
    os_pages: u64,
    saved: &MachineIdentity,
    has_power_fail: bool,
) -> MemoryForecast {
    if layout.identity_rule != IDENTITY_RULE {
        return MemoryForecast::OtherIdentity {
            found: layout.identity_rule,
            known: IDENTITY_RULE,
        };
    }
    if layout.placement_rule != PLACEMENT_RULE {
        return MemoryForecast::OtherPlacement(layout.placement_rule);
    }
    let Some(harts) = harts(saved.harts) else {
        return MemoryForecast::Unknown;
    };
    let fits = |loaded, bytes| os_memory(loaded, bytes, os_pages) == Some(saved.memory);
    let loaded_pages = layout.loaded.length().div_ceil(PAGE_BYTES);
    let data = layout.data_with(harts, has_power_fail);
    let mut expected = data.bytes_for_os(os_pages, loaded_pages, harts);
    let Some(data_bytes) = expected.next() else {
        return MemoryForecast::Unknown;
    };
    if fits(layout.loaded, data_bytes) || expected.any(|bytes| fits(layout.loaded, bytes)) {
        return MemoryForecast::Same;
    }
    let is_other = (1..=LOADED_STEPS).any(|steps| {
        let loaded = PhysRange::new(layout.loaded.start, steps * LOADED_STEP);
        sizes().chain([0]).any(|bytes| fits(loaded, bytes))
    });
    if is_other {
        MemoryForecast::Other { data_bytes }
    } else {
        MemoryForecast::Unknown
    }
}

/// How many harts have this hash, where they are numbered from 0 or from 1 on.
fn harts(fingerprint: u64) -> Option<u64> {
    let counts = 1..=MAX_HARTS as u64;
    counts.into_iter().find(|count| {
        let numbered_from = |first| harts_fingerprint(first..first + count) == fingerprint;
        numbered_from(0) || numbered_from(1)
    })
}

/// The hash of the OS's ranges on a machine that has one range of memory, of which a
/// firmware takes `loaded`, at its start, and `data_bytes`.
fn os_memory(loaded: PhysRange, data_bytes: u64, os_pages: u64) -> Option<u64> {
    let os_bytes = os_pages.checked_mul(PAGE_BYTES)?;
    let bytes = os_bytes
        .checked_add(loaded.length())?
        .checked_add(data_bytes)?;
    loaded.start.checked_add(bytes)?;
    let memory = [PhysRange::new(loaded.start, bytes)];
    let data = match data_bytes {
        0 => PhysRange::new(loaded.start, 0),
        _ => place(&memory, &[loaded], data_bytes)?,
    };
    let os = MemoryMap::new(&memory, &[loaded, data]).ok()?;
    Some(memory_fingerprint(os.ranges()))
}
