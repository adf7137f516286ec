use super::fault::cause::{
    DOUBLE_TRAP, ILLEGAL_INSTRUCTION, INTERRUPT, LOAD_ACCESS, STORE_ACCESS, SUPERVISOR_CALL,
};

/// Machine mode's interrupts, by number (privileged specification, table 3.6).
mod number {
    pub(super) const SOFTWARE: u64 = 3;
    pub(super) const TIMER: u64 = 7;
    pub(super) const EXTERNAL: u64 = 11;
}

/// Meaning of a trap from the OS, its programs or its guests for machine mode.
///
/// Every cause has one: an OS cannot stop the machine by an unknown trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OsTrap {
    /// An SBI call.
    Call,
    /// An IPI of another hart, or the power-fail line.
    OtherHart,
    /// The OS's timer, which machine mode keeps.
    Timer,
    /// A load or a store, possibly of a mediated register.
    Access,
    /// An illegal instruction, possibly a read of a counter that the hart lacks.
    IllegalInstruction,
    /// S-mode trapped during a trap and lost its return address: the OS cannot continue.
    DoubleTrap,
    /// An interrupt without a handler in machine mode, by number. It is disabled: otherwise it
    /// would repeat forever.
    Unknown(u32),
    /// Any other exception, for the OS to handle.
    Exception,
}

impl OsTrap {
    /// Classifies a value of `mcause`.
    #[must_use]
    pub fn of(cause: u64) -> Self {
        match cause {
            SUPERVISOR_CALL => OsTrap::Call,
            LOAD_ACCESS | STORE_ACCESS => OsTrap::Access,
            ILLEGAL_INSTRUCTION => OsTrap::IllegalInstruction,
            DOUBLE_TRAP => OsTrap::DoubleTrap,
            exception if exception & INTERRUPT == 0 => OsTrap::Exception,
            interrupt => match interrupt & !INTERRUPT {
                number::SOFTWARE | number::EXTERNAL => OsTrap::OtherHart,
                number::TIMER => OsTrap::Timer,
                other => OsTrap::Unknown(u32::try_from(other).unwrap_or(u32::MAX)),
            },
        }
    }
}
