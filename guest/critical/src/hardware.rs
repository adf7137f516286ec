//! The program's unsafe code: registers, and the device tree.
//!
//! Interrupts stay off in `sstatus`. A pending one ends `wfi`, and the loop takes it there, so no
//! handler runs beside other code.

use poorwill_bare::imsic::{self, EIDELIVERY, EIE0, EIP0, EITHRESHOLD};
use poorwill_bare::{mmio, write_csr};
use poorwill_drivers::Registers;
use poorwill_memory::to_usize;

/// Timer and external interrupts of S-mode (`sie`).
const TIMER_AND_EXTERNAL: usize = 1 << 5 | 1 << 9;

/// The registers of one device.
#[derive(Debug)]
pub(crate) struct Device(usize);

impl Device {
    /// # Safety
    ///
    /// A device's registers lie at `address`, and no other value stands for them. It does no DMA.
    pub(crate) unsafe fn new(address: u64) -> Self {
        Device(to_usize(address))
    }
}

macro_rules! registers {
    ($($width:ty: $read:ident, $write:ident;)*) => {$(
        impl Registers<$width> for Device {
            fn read(&self, offset: u64) -> $width {
                mmio::$read(self.0 + to_usize(offset))
            }

            fn write(&self, offset: u64, value: $width) {
                mmio::$write(self.0 + to_usize(offset), value);
            }
        }
    )*};
}
registers! {
    u8: read8, write8;
    u32: read32, write32;
}

/// The device tree at `address`.
///
/// # Safety
///
/// A device tree lies there, and no code writes to it.
pub(crate) unsafe fn tree(address: *const u8) -> &'static [u8] {
    // SAFETY: as the caller says.
    unsafe { dtoolkit::fdt::Fdt::from_raw_unchecked(address) }.data()
}

/// Opens the hart's interrupts, none of which is pending then. No identity is enabled.
pub(crate) fn start_interrupts() {
    for (register, value) in [(EIE0, 0), (EIP0, 0), (EITHRESHOLD, 0), (EIDELIVERY, 1)] {
        imsic::write(register, value);
    }
    // `sstatus.SIE` stays clear, so that interrupts run no code.
    write_csr!("sie", TIMER_AND_EXTERNAL);
}
