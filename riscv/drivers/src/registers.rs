/// The registers of one device that are as wide as `W` (`u8` to `u64`), by
/// volatile accesses. A device with registers of several widths has one
/// implementation for each.
pub trait Registers<W> {
    /// The register at `offset` bytes from the first, a multiple of its width.
    fn read(&self, offset: u64) -> W;

    /// Writes the register at `offset`, likewise; in order with all reads and
    /// writes of the device.
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
