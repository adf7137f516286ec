//! The counters that programs read, as the calling hart has them.

use poorwill_hart::emulation::COUNTERS;

use crate::csr;
use crate::time;

/// Returns whether S-mode can read `cycle`, `time` and `instret` on the calling hart. The tree does
/// not decide, as trees list Zicntr for harts without them. Opens all three in `mcounteren`.
///
/// A hart may have a register for machine mode alone: its bit in `mcounteren` then stays zero.
pub fn all_are_there() -> bool {
    // SAFETY: machine mode does not depend on `mcounteren`.
    unsafe { csr::write::<{ csr::MCOUNTEREN }>(COUNTERS) };
    time::ask_hart()
        && csr::try_read::<{ csr::CYCLE }>().is_some()
        && csr::try_read::<{ csr::INSTRET }>().is_some()
        && csr::read::<{ csr::MCOUNTEREN }>() & COUNTERS == COUNTERS
}
