/// Registers of width `W` (`u8` to `u64`) of one device, by volatile accesses. A device with
/// several widths has an implementation for each.
pub trait Registers<W> {
    /// Reads the register at `offset` bytes, a multiple of the width.
    fn read(&self, offset: u64) -> W;

    /// Writes the register at `offset` bytes, in order with all accesses to the device.
    fn write(&self, offset: u64, value: W);
}

impl<W, R: Registers<W> + ?Sized> Registers<W> for &R {
    fn read(&self, offset: u64) -> W {
        (**self).read(offset)
    }

    fn write(&self, offset: u64, value: W) {
        (**self).write(offset, value);
    }
}
