//! A cache controller that writes back a line by its physical address: SiFive's composable
//! cache (U74-MC Core Complex Manual, "Level 2 Cache Controller"; Linux
//! `drivers/cache/sifive_ccache.c`).

use poorwill_memory::PhysRange;

use crate::Registers;

/// Flush64: a stored address makes the cache write that line back, also from the harts' caches,
/// which it includes. The store completes with the write-back.
const FLUSH_64: u64 = 0x200;

const LINE_BYTES: u8 = 64;

/// Registers of the controller.
#[derive(Clone, Copy, Debug)]
pub struct FlushRegisters<R>(R);

impl<R: Registers<u64>> FlushRegisters<R> {
    /// For a controller with Flush64.
    pub const fn new(registers: R) -> Self {
        FlushRegisters(registers)
    }

    /// Writes back all lines that hold these bytes. Callers need a fence before, for earlier
    /// stores, and one after, for later accesses.
    pub fn write_back(&self, bytes: PhysRange) {
        let bytes_each = u64::from(LINE_BYTES);
        let first = bytes.start / bytes_each * bytes_each;
        for line in (first..bytes.end).step_by(LINE_BYTES.into()) {
            self.0.write(FLUSH_64, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::vec::Vec;

    use super::*;

    #[derive(Debug, Default)]
    struct Model(RefCell<Vec<u64>>);

    impl Registers<u64> for Model {
        fn read(&self, _offset: u64) -> u64 {
            unreachable!("there is nothing to read")
        }

        fn write(&self, offset: u64, value: u64) {
            assert_eq!(offset, 0x200);
            self.0.borrow_mut().push(value);
        }
    }

    #[test]
    fn every_line_that_holds_a_byte_is_named() {
        let lines = |start, length| {
            let model = Model::default();
            FlushRegisters::new(&model).write_back(PhysRange::new(start, length));
            model.0.take()
        };
        assert_eq!(lines(0x1000, 64), [0x1000]);
        assert_eq!(lines(0x103f, 2), [0x1000, 0x1040]);
    }
}
