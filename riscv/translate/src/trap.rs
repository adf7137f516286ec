//! Traps into S-mode, and the return from them (privileged specification, 12.1).

use poorwill_hart::emulation::{cause, status};
use poorwill_hart::interrupt::{SEI, SSI, STI};

use crate::hart::{Mode, Stop, VirtualHart};
use crate::host::Host;

/// An exception that S-mode handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    pub(crate) cause: u64,
    /// `stval`
    pub(crate) value: u64,
}

/// Why an instruction did not take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    Exception(Exception),
    Stop(Stop),
}

/// For an instruction that the lent hart itself must execute.
pub(crate) const UNKNOWN: Trap = Trap::Stop(Stop::Unknown);

impl From<Exception> for Trap {
    fn from(exception: Exception) -> Self {
        Trap::Exception(exception)
    }
}

impl VirtualHart {
    /// Enters S-mode's handler.
    pub(crate) fn enter_handler(&mut self, cause: u64, value: u64) {
        let before = self.csrs.sstatus;
        let mut after = before & !(status::SIE | status::SPIE | status::SPP);
        if before & status::SIE != 0 {
            after |= status::SPIE;
        }
        if self.mode == Mode::Supervisor {
            after |= status::SPP;
        }
        self.csrs.sstatus = after;
        self.csrs.sepc = self.pc;
        self.csrs.scause = cause;
        self.csrs.stval = value;
        self.mode = Mode::Supervisor;
        self.settle_shortcuts();
        self.reservation = None;
        let base = self.csrs.stvec & !3;
        let is_vectored = self.csrs.stvec & 3 == 1 && cause & cause::INTERRUPT != 0;
        let offset = if is_vectored {
            4 * (cause & !cause::INTERRUPT)
        } else {
            0
        };
        self.pc = base.wrapping_add(offset);
    }

    /// `sret`
    pub(crate) fn leave_handler(&mut self) {
        let before = self.csrs.sstatus;
        let mut after = before & !(status::SIE | status::SPP) | status::SPIE;
        if before & status::SPIE != 0 {
            after |= status::SIE;
        }
        self.mode = match before & status::SPP {
            0 => Mode::User,
            _ => Mode::Supervisor,
        };
        self.csrs.sstatus = after;
        self.pc = self.csrs.sepc;
        self.reservation = None;
    }

    /// `sip`
    pub(crate) fn pending(&self, host: &impl Host) -> u64 {
        self.pending_at(host.time(), host)
    }

    /// `sip` at this time, which is the present.
    pub(crate) fn pending_at(&self, now: u64, host: &impl Host) -> u64 {
        let bit = |is_pending, bit| if is_pending { bit } else { 0 };
        bit(self.csrs.software_interrupt, SSI)
            | bit(now >= self.csrs.deadline, STI)
            | bit(host.external_interrupt(), SEI)
    }

    /// Returns whether an interrupt ends a wait: it is pending and enabled in `sie`.
    #[must_use]
    pub fn is_interrupted(&self, host: &impl Host) -> bool {
        self.pending(host) & self.csrs.sie != 0
    }

    /// Takes the interrupt of the highest priority (12.1.3), if S-mode lets one in.
    pub(crate) fn take_interrupt(&mut self, host: &impl Host) {
        if self.lets_in() {
            self.take_first(self.pending(host) & self.csrs.sie);
        }
    }

    /// Returns whether S-mode lets interrupts in.
    pub(crate) fn lets_in(&self) -> bool {
        self.mode == Mode::User || self.csrs.sstatus & status::SIE != 0
    }

    /// Takes the first of these interrupts, which S-mode lets in.
    pub(crate) fn take_first(&mut self, due: u64) {
        let first = [SEI, SSI, STI].into_iter().find(|bit| due & bit != 0);
        if let Some(bit) = first {
            self.counts.interrupts += 1;
            self.enter_handler(cause::INTERRUPT | u64::from(bit.trailing_zeros()), 0);
        }
    }
}
