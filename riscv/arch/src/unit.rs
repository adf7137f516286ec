//! Hart units that a field of `mstatus` enables.

use crate::csr;

/// Runs `access` with this field of `mstatus` set, then restores the field. A unit that is Off
/// keeps its registers.
pub(crate) fn opened<R>(field: u64, access: impl FnOnce() -> R) -> R {
    let before = csr::read::<{ csr::MSTATUS }>() & field;
    // SAFETY: the unit is the OS's; the firmware is built without it. The field is restored below.
    unsafe { csr::set::<{ csr::MSTATUS }>(field) };
    let result = access();
    // SAFETY: restores the old value.
    unsafe {
        csr::clear::<{ csr::MSTATUS }>(field);
        csr::set::<{ csr::MSTATUS }>(before);
    }
    result
}
