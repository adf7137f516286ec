//! Device registers.

use poorwill_drivers::Registers;

/// A device's registers, from a base address.
///
/// Reads and writes are volatile, aligned, and ordered against other device
/// accesses by the I/O region they lie in.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    base: u64,
}

impl Mmio {
    /// The registers from `base` on.
    ///
    /// # Safety
    ///
    /// What lies there is a device, as large as the offsets used with it, whose
    /// registers machine mode may access whenever the value is used.
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
                // SAFETY: the maker of the value vouched for the device, and the
                // driver asks for a register of that width.
                unsafe { self.at::<$width>(offset).read_volatile() }
            }

            fn write(&self, offset: u64, value: $width) {
                // SAFETY: the maker of the value vouched for the device, and the
                // driver asks for a register of that width.
                unsafe { self.at::<$width>(offset).write_volatile(value) }
            }
        })*
    };
}

registers_of!(u8 u16 u32 u64);
