//! The OS's own CSRs, from the list in crate `hart`.

use poorwill_hart::Csr;

use crate::csr;

macro_rules! by_name {
    ($($csr:ident $name:literal $number:literal,)*) => {
        /// Reads a CSR; `None` where the hart lacks it.
        pub fn read(csr: Csr) -> Option<u64> {
            match csr {
                $(Csr::$csr => csr::try_read::<$number>(),)*
            }
        }

        /// Writes a CSR. Does nothing if the hart lacks it.
        pub fn write(csr: Csr, value: u64) {
            // SAFETY: these CSRs act on S-mode and below only.
            unsafe {
                match csr {
                    $(Csr::$csr => csr::try_write::<$number>(value),)*
                }
            };
        }
    };
}

poorwill_hart::for_each_os_csr!(by_name);
