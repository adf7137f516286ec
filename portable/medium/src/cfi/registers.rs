/// A bank of flash on its bus, by volatile accesses.
pub trait Registers {
    /// Bytes of the bus that lead to the bank: as many as it holds.
    fn length(&self) -> u64;

    /// Bytes of one access: the bank's width, 1, 2 or 4.
    fn width(&self) -> u8;

    /// One read of the bank's width at `offset`, a multiple of it below
    /// [`Registers::length`]; the chip on the lowest lanes is in the lowest bits.
    fn read(&self, offset: u64) -> u32;

    /// One write of the bank's width, likewise; in order with all reads and
    /// writes of the bank.
    fn write(&self, offset: u64, value: u32);
}

impl<R: Registers + ?Sized> Registers for &R {
    fn length(&self) -> u64 {
        (**self).length()
    }

    fn width(&self) -> u8 {
        (**self).width()
    }

    fn read(&self, offset: u64) -> u32 {
        (**self).read(offset)
    }

    fn write(&self, offset: u64, value: u32) {
        (**self).write(offset, value);
    }
}
