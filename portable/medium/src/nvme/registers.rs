/// The registers of one controller (its BAR 0), by volatile accesses.
pub trait Registers {
    /// Bytes of registers that may be accessed.
    fn length(&self) -> u64;

    /// The 32-bit register at `offset`, a multiple of 4 below
    /// [`Registers::length`].
    fn read32(&self, offset: u64) -> u32;

    /// Writes the 32-bit register at `offset`, a multiple of 4 below
    /// [`Registers::length`]; all memory writes before it are visible to the
    /// controller first.
    fn write32(&self, offset: u64, value: u32);

    /// Takes bus mastering from the device (PCI command register), so that it
    /// can no longer access memory. Called only when the controller does not
    /// stop by itself within the time that it grants itself.
    fn cut_dma(&self);

    /// The 64-bit register at `offset`; as two halves, the lower first, which
    /// every controller must accept.
    fn read64(&self, offset: u64) -> u64 {
        let low = u64::from(self.read32(offset));
        low | u64::from(self.read32(offset + 4)) << 32
    }

    /// Writes the 64-bit register at `offset`; as two halves, the lower first.
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
