/// The bus of a flash bank, with volatile accesses.
pub trait Registers {
    /// The length of the bank's bus range in bytes, equal to the bank's length.
    fn length(&self) -> u64;

    /// The bytes of one access: the bank's width, 1, 2 or 4.
    fn width(&self) -> u8;

    /// Reads one word of the bank's width at `offset`, a multiple of the width below
    /// [`Registers::length`]. The chip on the lowest lanes has the lowest bits.
    fn read(&self, offset: u64) -> u32;

    /// Writes one word of the bank's width at `offset`, in order with all accesses to the bank.
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
