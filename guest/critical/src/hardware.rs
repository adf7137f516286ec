//! The program's unsafe code: registers, and the device tree.
//!
//! Interrupts stay off in `sstatus`. A pending one ends `wfi`, and the loop takes it there, so no
//! handler runs beside other code.

use core::arch::asm;

use poorwill_drivers::Registers;
use poorwill_memory::to_usize;

/// Timer and external interrupts of S-mode (`sie`).
const TIMER_AND_EXTERNAL: usize = 1 << 5 | 1 << 9;

/// Registers of an IMSIC file, by `siselect` (RISC-V AIA 1.0, 3.8).
const EIDELIVERY: usize = 0x70;
const EITHRESHOLD: usize = 0x72;
const EIP0: usize = 0x80;
const EIE0: usize = 0xc0;

/// The registers of one device.
#[derive(Debug)]
pub(crate) struct Device(usize);

impl Device {
    /// # Safety
    ///
    /// A device's registers lie at `address`, and no other value stands for them.
    pub(crate) unsafe fn new(address: u64) -> Self {
        Device(to_usize(address))
    }

    fn at<W>(&self, offset: u64) -> *mut W {
        core::ptr::with_exposed_provenance_mut(self.0 + to_usize(offset))
    }
}

macro_rules! registers {
    ($($width:ty),*) => {$(
        impl Registers<$width> for Device {
            fn read(&self, offset: u64) -> $width {
                // SAFETY: `new`'s caller vouches for the device. Another address traps.
                unsafe { self.at::<$width>(offset).read_volatile() }
            }

            fn write(&self, offset: u64, value: $width) {
                // SAFETY: as above. The devices do no DMA.
                unsafe { self.at::<$width>(offset).write_volatile(value) }
            }
        }
    )*};
}
registers!(u8, u32);

/// The device tree at `address`.
///
/// # Safety
///
/// A device tree lies there, and no code writes to it.
pub(crate) unsafe fn tree(address: *const u8) -> &'static [u8] {
    // SAFETY: as the caller says.
    unsafe { dtoolkit::fdt::Fdt::from_raw_unchecked(address) }.data()
}

/// Reads `time`.
pub(crate) fn time() -> u64 {
    let ticks;
    // SAFETY: reading the clock changes no state.
    unsafe { asm!("csrr {}, time", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Sets `stimecmp` of a hart with Sstc.
pub(crate) fn set_stimecmp(ticks: u64) {
    // SAFETY: the timer's interrupt runs no code.
    unsafe { asm!("csrw 0x14d, {}", in(reg) ticks, options(nomem, nostack)) }
}

/// Waits for an enabled interrupt.
pub(crate) fn wait() {
    // SAFETY: `wfi` changes no state.
    unsafe { asm!("wfi", options(nomem, nostack)) }
}

/// Writes a register of the hart's IMSIC file.
fn write_file(register: usize, value: usize) {
    // SAFETY: the hart has an IMSIC, by its device tree. Its interrupts run no code.
    unsafe { asm!("csrw siselect, {}", "csrw sireg, {}", in(reg) register, in(reg) value) }
}

/// Opens the hart's interrupts, none of which is pending then. No identity is enabled.
pub(crate) fn start_interrupts() {
    write_file(EIE0, 0);
    write_file(EIP0, 0);
    write_file(EITHRESHOLD, 0);
    write_file(EIDELIVERY, 1);
    // SAFETY: `sstatus.SIE` stays clear, so that interrupts run no code.
    unsafe { asm!("csrw sie, {}", in(reg) TIMER_AND_EXTERNAL, options(nomem, nostack)) }
}

/// Enables the external interrupts whose identities have a bit, and no others.
pub(crate) fn enable(identities: usize) {
    write_file(EIE0, identities);
}

/// Takes the pending external interrupt of the lowest identity.
pub(crate) fn claim() -> Option<u32> {
    let top: u32;
    // SAFETY: the write clears the pending bit of the identity that the read returns.
    unsafe { asm!("csrrw {}, 0x15c, zero", out(reg) top, options(nomem, nostack)) };
    (top != 0).then_some(top >> 16)
}
