use super::cause::{DOUBLE_TRAP, INTERRUPT, LOAD_ACCESS, STORE_ACCESS, SUPERVISOR_CALL};

/// Machine mode's interrupts, by number (privileged specification, table 3.6).
mod number {
    pub(super) const SOFTWARE: u64 = 3;
    pub(super) const TIMER: u64 = 7;
    pub(super) const EXTERNAL: u64 = 11;
}

/// What a trap from the OS, its programs or its guests is for machine mode.
///
/// There is an answer to every cause: no OS ends the machine by a trap that machine mode
/// does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OsTrap {
    /// A call of S-mode.
    Call,
    /// Another hart, or the power-fail line.
    OtherHart,
    /// The OS's timer, which machine mode keeps.
    Timer,
    /// A load or a store, perhaps of a mediated register.
    Access,
    /// S-mode trapped where it could not, and has lost where it came from: the OS cannot go
    /// on.
    DoubleTrap,
    /// An interrupt that machine mode has no handler for, by its number. It is disabled:
    /// otherwise the hart would do nothing else.
    Unknown(u32),
    /// Any other exception, which is the OS's to handle.
    Exception,
}

impl OsTrap {
    /// The one with this `mcause`.
    #[must_use]
    pub fn of(cause: u64) -> Self {
        match cause {
            SUPERVISOR_CALL => OsTrap::Call,
            LOAD_ACCESS | STORE_ACCESS => OsTrap::Access,
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
