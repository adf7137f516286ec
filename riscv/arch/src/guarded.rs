//! Accesses that a device or the bus may refuse with a fault.

use poorwill_hart::emulation::{Access, Operation};

use crate::probe::probe;

/// Carries out an access. Returns the loaded value, or 0 after a store; `None` if it faults.
///
/// # Safety
///
/// As for [`load`] or [`store`].
pub unsafe fn make(access: &Access) -> Option<u64> {
    // SAFETY: passed on to the caller.
    unsafe {
        match access.operation {
            Operation::Load => load(access.address, access.bytes),
            Operation::Store(value) => store(access.address, access.bytes, value).then_some(0),
        }
    }
}

/// Loads `bytes` (1, 2, 4 or 8) from `address`; `None` if that faults.
///
/// # Safety
///
/// The address holds nothing, or a register that machine mode may read.
pub unsafe fn load(address: u64, bytes: u64) -> Option<u64> {
    // SAFETY: passed on to the caller. Other widths do nothing.
    let (value, there) = unsafe {
        match bytes {
            1 => probe!("lbu {value}, 0({at})", 0, at = in(reg) address),
            2 => probe!("lhu {value}, 0({at})", 0, at = in(reg) address),
            4 => probe!("lwu {value}, 0({at})", 0, at = in(reg) address),
            8 => probe!("ld {value}, 0({at})", 0, at = in(reg) address),
            _ => return None,
        }
    };
    there.then_some(value)
}

/// Stores the low `bytes` (1, 2, 4 or 8) of `value` to `address`. Returns false if that faults.
///
/// # Safety
///
/// The address holds nothing, or a register that machine mode may write with any value.
pub unsafe fn store(address: u64, bytes: u64, value: u64) -> bool {
    // SAFETY: passed on to the caller. Other widths do nothing.
    let (_, there) = unsafe {
        match bytes {
            1 => probe!("sb {value}, 0({at})", value, at = in(reg) address),
            2 => probe!("sh {value}, 0({at})", value, at = in(reg) address),
            4 => probe!("sw {value}, 0({at})", value, at = in(reg) address),
            8 => probe!("sd {value}, 0({at})", value, at = in(reg) address),
            _ => return false,
        }
    };
    there
}
