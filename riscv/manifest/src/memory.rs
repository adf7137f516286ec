//! Predicts whether the OS would have the same memory under another firmware.
//!
//! An image holds a hash of the OS's ranges of memory, not the ranges. So this module guesses the
//! machine's memory: one range, which begins at the firmware's load address. It guesses the number
//! of harts, on which the firmware's second range depends, from their hash. After a right guess the
//! remaining ranges have the image's hash; a wrong guess does not match by chance.

use poorwill_devicetree::{
    IDENTITY_RULE, MAX_HARTS, PLACEMENT_RULE, harts_fingerprint, memory_fingerprint, place,
};
use poorwill_memory::{MachineIdentity, MemoryMap, PAGE_BYTES, PhysRange};

use crate::layout::{Added, MemoryLayout, sizes};

/// Step in bytes between the load sizes of other firmwares that are tried.
const LOADED_STEP: u64 = 64 << 10;

/// Number of steps that are tried: up to 4 MiB.
const LOADED_STEPS: u64 = 64;

/// The expected memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryForecast {
    /// The image's.
    Same,
    /// Another one: the OS had its memory under a firmware that reserves other ranges.
    Other {
        /// Bytes of this firmware's second range.
        data_bytes: u64,
    },
    /// This firmware computes the hash by another rule.
    OtherIdentity { found: u16, known: u16 },
    /// This firmware places its memory by an unknown rule.
    OtherPlacement(u16),
    /// The guess about the machine's memory is wrong.
    Unknown,
}

/// Predicts the memory map for an image of `os_pages` pages from the machine `saved`, with or
/// without a power-fail line.
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
    // An image does not say whether a weak hart ran the OS. No machine has it beside a power-fail
    // line.
    let added: &[Added] = match has_power_fail {
        true => &[Added::PowerFail],
        false => &[Added::Nothing, Added::Executor],
    };
    let mut expected = added.iter().flat_map(|added| {
        let data = layout.data_with(harts, *added);
        data.bytes_for_os(os_pages, loaded_pages, harts)
    });
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

/// The number of harts with this hash, if their IDs begin at 0 or 1.
fn harts(fingerprint: u64) -> Option<u64> {
    let counts = 1..=MAX_HARTS as u64;
    counts.into_iter().find(|count| {
        let numbered_from = |first| harts_fingerprint(first..first + count) == fingerprint;
        numbered_from(0) || numbered_from(1)
    })
}

/// Hash of the OS's ranges on a machine with one range of memory, whose firmware takes `loaded` at
/// the start and `data_bytes`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CutRecord, DataRange, MAX_TERMS};

    /// With a weak hart the second range is four times as large.
    const LAYOUT: MemoryLayout = MemoryLayout {
        loaded: PhysRange {
            start: 0x8000_0000,
            end: 0x801c_0000,
        },
        placement_rule: PLACEMENT_RULE,
        identity_rule: IDENTITY_RULE,
        data: DataRange {
            fixed_pages: 509,
            hart_pages: 2,
            pages_per_page: [0; MAX_TERMS],
        },
        cut: CutRecord {
            fixed_bytes: 0,
            hart_bytes: 0,
        },
        executor_pages: 1025,
    };

    /// An image of a machine with one hart of the OS, and a second range of this size.
    fn forecast_of(data_bytes: u64, has_power_fail: bool) -> MemoryForecast {
        let os_pages = 0x8000;
        let saved = MachineIdentity {
            memory: os_memory(LAYOUT.loaded, data_bytes, os_pages).unwrap(),
            harts: harts_fingerprint(0..1),
            isa: 0,
            device_tree: 0,
        };
        forecast(&LAYOUT, os_pages, &saved, has_power_fail)
    }

    #[test]
    fn a_weak_hart_may_have_run_the_os() {
        assert_eq!(forecast_of(2 << 20, false), MemoryForecast::Same);
        assert_eq!(forecast_of(8 << 20, false), MemoryForecast::Same);
        let other = MemoryForecast::Other {
            data_bytes: 2 << 20,
        };
        assert_eq!(forecast_of(4 << 20, true), other);
        assert_eq!(forecast_of(4 << 20, false), other);
    }
}
