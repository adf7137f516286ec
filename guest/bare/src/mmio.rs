//! Device registers, by address.

macro_rules! accesses {
    ($($width:ty: $read:ident, $write:ident;)*) => {$(
        /// Reads a device register of this width.
        #[inline]
        pub fn $read(address: usize) -> $width {
            // SAFETY: device registers are no Rust objects; a bad address traps.
            unsafe { core::ptr::with_exposed_provenance::<$width>(address).read_volatile() }
        }

        /// Writes a device register of this width.
        #[inline]
        pub fn $write(address: usize, value: $width) {
            // SAFETY: as above.
            unsafe {
                core::ptr::with_exposed_provenance_mut::<$width>(address).write_volatile(value);
            }
        }
    )*};
}
accesses! {
    u8: read8, write8;
    u16: read16, write16;
    u32: read32, write32;
    u64: read64, write64;
}
