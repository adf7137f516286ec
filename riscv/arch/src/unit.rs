//! Units that `mstatus` opens and closes.

use crate::csr;

/// Opens the unit of that field of `mstatus` for as long as `access` takes. The field then
/// gets back the value that it had: a unit that is Off keeps its registers.
pub(crate) fn opened<R>(field: u64, access: impl FnOnce() -> R) -> R {
    let before = csr::read::<{ csr::MSTATUS }>() & field;
    // SAFETY: the unit is the OS's, and the firmware is built without it. The field gets
    // its own value back below.
    unsafe { csr::set::<{ csr::MSTATUS }>(field) };
    let result = access();
    // SAFETY: the value that it had.
    unsafe {
        csr::clear::<{ csr::MSTATUS }>(field);
        csr::set::<{ csr::MSTATUS }>(before);
    }
    result
}
