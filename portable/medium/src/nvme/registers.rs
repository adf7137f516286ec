/// The registers of one controller (BAR 0), with volatile accesses.
pub trait Registers {
    /// The length of the register range in bytes.
    fn length(&self) -> u64;

    /// Reads the 32-bit register at `offset`, a multiple of 4 below
    /// [`Registers::length`].
    fn read32(&self, offset: u64) -> u32;

    /// Writes the 32-bit register at `offset`, a multiple of 4 below
    /// [`Registers::length`]. The controller sees all earlier memory writes first.
    fn write32(&self, offset: u64, value: u32);

    /// Turns off the device's bus mastering (PCI command register), so that it can no
    /// longer access memory. Called only if the controller does not stop by itself within
    /// its own limit.
    fn cut_dma(&self);

    /// Reads a 64-bit register as two halves, the lower first, which all controllers must
    /// accept.
    fn read64(&self, offset: u64) -> u64 {
        let low = u64::from(self.read32(offset));
        low | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes a 64-bit register as two halves, the lower first.
    #[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
    fn write64(&self, offset: u64, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }
}

impl<R: Registers + ?Sized> Registers for &R {
    fn length(&self) -> u64 {
        (**self).length()
    }

    fn read32(&self, offset: u64) -> u32 {
        (**self).read32(offset)
    }

    fn write32(&self, offset: u64, value: u32) {
        (**self).write32(offset, value);
    }

    fn cut_dma(&self) {
        (**self).cut_dma();
    }

    fn read64(&self, offset: u64) -> u64 {
        (**self).read64(offset)
    }

    fn write64(&self, offset: u64, value: u64) {
        (**self).write64(offset, value);
    }
}
