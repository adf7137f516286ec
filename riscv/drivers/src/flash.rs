//! Registers of flash on a parallel bus, for the driver of its chips.

use poorwill_medium::cfi;

use crate::Registers;

/// A bank of memory-mapped flash. Each access has the width of the bank.
#[derive(Clone, Copy, Debug)]
pub struct FlashBank<R> {
    registers: R,
    length: u64,
    width: u8,
}

impl<R> FlashBank<R> {
    /// A bank of `length` bytes; accesses have `width` bytes.
    pub fn new(registers: R, length: u64, width: u8) -> Self {
        FlashBank {
            registers,
            length,
            width,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a value has at most the bank's width"
)]
impl<R> cfi::Registers for FlashBank<R>
where
    R: Registers<u8> + Registers<u16> + Registers<u32>,
{
    fn length(&self) -> u64 {
        self.length
    }

    fn width(&self) -> u8 {
        self.width
    }

    fn read(&self, offset: u64) -> u32 {
        match self.width {
            1 => Registers::<u8>::read(&self.registers, offset).into(),
            2 => Registers::<u16>::read(&self.registers, offset).into(),
            _ => self.registers.read(offset),
        }
    }

    fn write(&self, offset: u64, value: u32) {
        match self.width {
            1 => self.registers.write(offset, value as u8),
            2 => self.registers.write(offset, value as u16),
            _ => self.registers.write(offset, value),
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "numbers here are small")]
mod tests {
    use std::cell::RefCell;

    use poorwill_medium::cfi::Registers as _;

    use super::*;

    /// Memory that remembers how wide it was accessed.
    #[derive(Debug)]
    struct Model(RefCell<([u8; 16], Vec<usize>)>);

    macro_rules! registers_of {
        ($($width:ty)*) => {
            $(impl Registers<$width> for Model {
                fn read(&self, offset: u64) -> $width {
                    let (memory, widths) = &mut *self.0.borrow_mut();
                    widths.push(size_of::<$width>());
                    let bytes = &memory[offset as usize..][..size_of::<$width>()];
                    <$width>::from_le_bytes(bytes.try_into().unwrap())
                }

                fn write(&self, offset: u64, value: $width) {
                    let (memory, widths) = &mut *self.0.borrow_mut();
                    widths.push(size_of::<$width>());
                    memory[offset as usize..][..size_of::<$width>()]
                        .copy_from_slice(&value.to_le_bytes());
                }
            })*
        };
    }

    registers_of!(u8 u16 u32);

    #[test]
    fn each_access_is_as_wide_as_the_bank() {
        for (width, value) in [(1, 0xef), (2, 0xcdef), (4, 0x89ab_cdef)] {
            let model = Model(RefCell::new(([0xff; 16], Vec::new())));
            let bank = FlashBank::new(&model, 16, width);
            assert_eq!((bank.length(), bank.width()), (16, width));
            bank.write(4, value);
            assert_eq!(bank.read(4), value);
            let (memory, widths) = &*model.0.borrow();
            assert_eq!(*widths, [usize::from(width); 2]);
            let written = 4..4 + usize::from(width);
            let kept = |(at, byte): (usize, &u8)| written.contains(&at) || *byte == 0xff;
            assert!(memory.iter().enumerate().all(kept));
        }
    }
}
