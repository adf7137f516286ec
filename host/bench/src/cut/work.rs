//! The work of Stop without the write-back of caches, as straight lines through measurements.

use serde::{Deserialize, Serialize};

/// Times of Stop on LightPC's prototype (0.4 GHz), in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Stop on one hart, with no PCI function in use.
    pub first_ns: u64,
    /// What each further hart adds.
    pub hart_ns: u64,
    /// What each PCI function in use adds.
    pub function_ns: u64,
}

impl Work {
    /// The lines through the measurements of `poorwill bench cut`, at the base point and with 500 ns for
    /// a device access: 1 to 32 idle harts take 762 to 2006 us, and 1 to 16 NVMe controllers on one hart
    /// 1019 to 4671. Harts with caches of 16 KiB write these back in that time, too.
    pub const MEASURED: Work = Work {
        first_ns: 787_000,
        hart_ns: 38_900,
        function_ns: 243_900,
    };

    /// Nanoseconds of Stop on `harts` harts, with no PCI function in use.
    #[must_use]
    pub fn of_harts(&self, harts: u64) -> u64 {
        let further = harts.saturating_sub(1);
        self.first_ns
            .saturating_add(self.hart_ns.saturating_mul(further))
    }
}
