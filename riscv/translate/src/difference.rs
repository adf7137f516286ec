//! What check mode has found.

use core::fmt::{self, Display};

/// A result of translated code that is not the interpreter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Address of the block's first instruction.
    pub block: u64,
    /// What differs.
    pub what: What,
    /// Its value after translated code.
    pub translated: u64,
    /// Its value after the interpreter.
    pub interpreted: u64,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Address of the next instruction.
    Address,
    /// Number of instructions.
    Instructions,
    /// `x1` to `x31`.
    Register(u8),
    /// `f0` to `f31`.
    Float(u8),
    /// `sstatus`
    Status,
    /// Address and size of the reservation.
    Reservation,
    /// The reserved value.
    Reserved,
    /// A byte of memory, by its physical address.
    Memory(u64),
}

impl Display for What {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Address => formatter.write_str("the next address"),
            What::Instructions => formatter.write_str("the number of instructions"),
            What::Register(number) => write!(formatter, "x{number}"),
            What::Float(number) => write!(formatter, "f{number}"),
            What::Status => formatter.write_str("sstatus"),
            What::Reservation => formatter.write_str("the reservation"),
            What::Reserved => formatter.write_str("the reserved value"),
            What::Memory(address) => write!(formatter, "the byte at {address:#x}"),
        }
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            block,
            what,
            translated,
            interpreted,
        } = self;
        write!(
            formatter,
            "the block of {block:#x} is translated wrongly: {what} is {translated:#x} after it, and \
             {interpreted:#x} after the interpreter"
        )
    }
}
