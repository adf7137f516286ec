//! The CSRs that count cycles and instructions, which QEMU takes from the host's counter.

use std::ffi::{c_char, c_int, c_void};

use super::symbols::{MissingSymbol, functions};

/// Reads a CSR of the hart whose state is named.
pub(crate) type Read = unsafe extern "C" fn(*mut c_void, c_int, *mut u64) -> c_int;
/// Writes it.
pub(crate) type Write = extern "C" fn(*mut c_void, c_int, u64) -> c_int;

/// What a read or a write gives back that raises no exception.
pub(crate) const NO_EXCEPTION: c_int = -1;

/// `mcycle`, `minstret`, `cycle`, `instret`: the lowest byte tells which of two it is.
const COUNTERS: [c_int; 4] = [0xb00, 0xb02, 0xc00, 0xc02];

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Cycles,
    Instructions,
}

impl Counter {
    /// That of a CSR's number.
    pub(crate) fn of(csr: c_int) -> Self {
        if csr & 0xff == 0 {
            Counter::Cycles
        } else {
            Counter::Instructions
        }
    }
}

/// `riscv_csr_operations`.
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
    /// QEMU's table of CSRs.
    struct Functions {
        fn riscv_get_csr_ops(c_int, *mut Operations);
        fn riscv_set_csr_ops(c_int, *const Operations);
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct CsrTable(Functions);

impl CsrTable {
    pub(crate) fn find() -> Result<Self, MissingSymbol> {
        Functions::find().map(CsrTable)
    }

    /// Lets `read` and `write` answer for the counters, where QEMU lets them be accessed.
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
            // SAFETY: QEMU copies a structure of that kind out of its table and into it;
            // no hart runs yet.
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
