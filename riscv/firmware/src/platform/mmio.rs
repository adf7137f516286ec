//! Device registers.

/// A device's registers, from a base address.
///
/// Reads and writes are volatile, aligned, and ordered against other device
/// accesses by the I/O region they lie in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mmio {
    base: usize,
}

impl Mmio {
    /// The registers from `base` on.
    ///
    /// # Safety
    ///
    /// What lies there is a device, as large as the offsets used with it, whose
    /// registers machine mode may access whenever the value is used.
    pub(crate) unsafe fn new(base: u64) -> Self {
        Mmio {
            base: base as usize,
        }
    }

    fn at<T>(self, offset: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.base + offset)
    }

    /// Reads an 8-bit register.
    pub(crate) fn read8(self, offset: usize) -> u8 {
        // SAFETY: the maker of the value vouched for the device.
        unsafe { self.at::<u8>(offset).read_volatile() }
    }

    /// Writes an 8-bit register.
    pub(crate) fn write8(self, offset: usize, value: u8) {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u8>(offset).write_volatile(value) }
    }

    /// Reads a 16-bit register.
    pub(crate) fn read16(self, offset: usize) -> u16 {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u16>(offset).read_volatile() }
    }

    /// Writes a 16-bit register.
    pub(crate) fn write16(self, offset: usize, value: u16) {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u16>(offset).write_volatile(value) }
    }

    /// Reads a 32-bit register.
    pub(crate) fn read32(self, offset: usize) -> u32 {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u32>(offset).read_volatile() }
    }

    /// Writes a 32-bit register.
    pub(crate) fn write32(self, offset: usize, value: u32) {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u32>(offset).write_volatile(value) }
    }

    /// Reads a 64-bit register.
    pub(crate) fn read64(self, offset: usize) -> u64 {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u64>(offset).read_volatile() }
    }

    /// Writes a 64-bit register.
    pub(crate) fn write64(self, offset: usize, value: u64) {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u64>(offset).write_volatile(value) }
    }
}
