//! Device registers.

use poorwill_drivers::Registers;

/// A device's registers from a base address.
///
/// Reads and writes are volatile and aligned. The I/O region orders them against other device
/// accesses.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    base: u64,
}

impl Mmio {
    /// The registers from `base` on.
    ///
    /// # Safety
    ///
    /// A device's registers lie there, at each offset that the value is used with. Machine mode may
    /// access them while the value exists.
    pub unsafe fn new(base: u64) -> Self {
        Mmio { base }
    }

    fn at<W>(self, offset: u64) -> *mut W {
        core::ptr::with_exposed_provenance_mut(self.base.wrapping_add(offset) as usize)
    }
}

macro_rules! registers_of {
    ($($width:ty)*) => {
        $(impl Registers<$width> for Mmio {
            fn read(&self, offset: u64) -> $width {
                // SAFETY: the caller of `new` guarantees a device there, and the driver asks for a
                // register of this width.
                unsafe { self.at::<$width>(offset).read_volatile() }
            }

            fn write(&self, offset: u64, value: $width) {
                // SAFETY: the caller of `new` guarantees a device there, and the driver asks for a
                // register of this width.
                unsafe { self.at::<$width>(offset).write_volatile(value) }
            }
        })*
    };
}

registers_of!(u8 u16 u32 u64);
