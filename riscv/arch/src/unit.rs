//! Hart units that a field of `mstatus` enables.

use crate::csr;

/// Runs `access` with this field of `mstatus` set, then restores the field. A unit keeps its
/// registers while it is Off.
pub(crate) fn opened<R>(field: u64, access: impl FnOnce() -> R) -> R {
    let before = csr::read::<{ csr::MSTATUS }>() & field;
    // SAFETY: only the OS uses the unit: the firmware is compiled without it. The field is restored
    // below.
    unsafe { csr::set::<{ csr::MSTATUS }>(field) };
    let result = access();
    // SAFETY: restores the old value.
    unsafe {
        csr::clear::<{ csr::MSTATUS }>(field);
        csr::set::<{ csr::MSTATUS }>(before);
    }
    result
}
