//! Hooks into the CSRs for cycles and instructions, which QEMU takes from the host's counter.

use std::ffi::{c_char, c_int, c_void};

use super::symbols::{MissingSymbol, functions};

/// QEMU's type of function that reads a CSR; the first argument is a hart's state.
pub(crate) type Read = unsafe extern "C" fn(*mut c_void, c_int, *mut u64) -> c_int;
/// QEMU's type of function that writes a CSR.
pub(crate) type Write = extern "C" fn(*mut c_void, c_int, u64) -> c_int;

/// Result of a read or write without an exception.
pub(crate) const NO_EXCEPTION: c_int = -1;

/// `mcycle`, `minstret`, `cycle`, `instret`: the lowest byte is 0 for cycles, 2 for instructions.
const COUNTERS: [c_int; 4] = [0xb00, 0xb02, 0xc00, 0xc02];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Cycles,
    Instructions,
}

impl Counter {
    /// The counter that the CSR with number `csr` shows.
    pub(crate) fn of(csr: c_int) -> Self {
        if csr & 0xff == 0 {
            Counter::Cycles
        } else {
            Counter::Instructions
        }
    }
}

/// QEMU's `riscv_csr_operations`.
#[repr(C)]
struct Operations {
    name: *const c_char,
    predicate: Option<unsafe extern "C" fn()>,
    read: Option<Read>,
    write: Option<Write>,
    others: [Option<unsafe extern "C" fn()>; 3],
    oldest_specification: u32,
}

functions! {
    /// QEMU's functions for its table of CSRs.
    struct Functions {
        fn riscv_get_csr_ops(c_int, *mut Operations);
        fn riscv_set_csr_ops(c_int, *const Operations);
    }
}

/// QEMU's table of CSRs.
#[derive(Debug)]
pub(crate) struct CsrTable(Functions);

impl CsrTable {
    pub(crate) fn find() -> Result<Self, MissingSymbol> {
        Functions::find().map(CsrTable)
    }

    /// Replaces the counters' functions by `read` and `write`. QEMU's access checks stay.
    pub(crate) fn hook(&self, read: Read, write: Write) {
        for csr in COUNTERS {
            let mut operations = Operations {
                name: std::ptr::null(),
                predicate: None,
                read: None,
                write: None,
                others: [None; 3],
                oldest_specification: 0,
            };
            // SAFETY: QEMU copies a structure of this type out of its table and into it; no hart
            // runs yet.
            unsafe {
                (self.0.riscv_get_csr_ops)(csr, &raw mut operations);
                operations.read = operations.read.map(|_| read);
                operations.write = operations.write.map(|_| write);
                (self.0.riscv_set_csr_ops)(csr, &raw const operations);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csrs_number_tells_the_counter() {
        let counters = COUNTERS.map(Counter::of);
        let (cycles, instructions) = (Counter::Cycles, Counter::Instructions);
        assert_eq!(counters, [cycles, instructions, cycles, instructions]);
    }
}
