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
    /// The work that `make figures-cut` measured, at 0.66 instructions a cycle and 500 ns for a
    /// device access: 165,231 instructions on 1 idle hart and 225,005 on 8, of which one performs 408
    /// accesses; and an NVMe disk at work, which adds 10,000 instructions and 344 accesses.
    pub const MEASURED: Work = Work {
        first_ns: 830_000,
        hart_ns: 32_300,
        function_ns: 210_000,
    };

    /// Nanoseconds of Stop on `harts` harts, with no PCI function in use.
    #[must_use]
    pub fn of_harts(&self, harts: u64) -> u64 {
        let further = harts.saturating_sub(1);
        self.first_ns
            .saturating_add(self.hart_ns.saturating_mul(further))
    }
}
