//! The timers of a hart: machine mode's, and the OS's, which is its own (Sstc) or
//! machine mode's to keep.

use crate::interrupt::{MEI, MSI, MTI, STI};

/// A deadline that never comes (SBI 3.0, chapter 6: all ones).
pub const NEVER: u64 = u64::MAX;

/// The timers of the hart that runs the call, and their bits in its CSRs. Machine
/// mode has its interrupts off: its bits in `mie` only end waits. The firmware has
/// registers behind it, tests have a model.
pub trait TimerAccess: Copy {
    /// Whether S-mode has its own timer (Sstc).
    fn has_sstc(&self) -> bool;

    /// Whether the hart has MTIMECMP.
    fn has_machine_timer(&self) -> bool;

    /// MTIMECMP; [`NEVER`] on a hart without.
    fn mtimecmp(&self) -> u64;

    /// Writes MTIMECMP. On a hart without nothing happens.
    fn set_mtimecmp(&self, deadline: u64);

    /// Reads `stimecmp`; called where there is Sstc.
    fn stimecmp(&self) -> u64;

    /// Writes `stimecmp`; called where there is Sstc.
    fn set_stimecmp(&self, deadline: u64);

    /// Reads `mie`.
    fn enabled(&self) -> u64;

    /// Writes `mie`.
    fn set_enabled(&self, bits: u64);

    /// Sets or clears MTIE in `mie`.
    fn enable_machine_timer(&self, is_enabled: bool);

    /// Reads `mip`.
    fn pending(&self) -> u64;

    /// Sets or clears STIP in `mip`; called where there is no Sstc.
    fn set_supervisor_pending(&self, is_pending: bool);

    /// Waits for one of the interrupts in `mie`, once device writes have arrived. It
    /// may return at any time for no reason.
    fn wait(&self);
}

/// A hart's timers. All methods are the calling hart's to use, but for
/// [`stop_machine_timer`](HartTimer::stop_machine_timer).
#[derive(Clone, Copy, Debug)]
pub struct HartTimer<A>(A);

impl<A: TimerAccess> HartTimer<A> {
    /// Those behind `access`.
    pub fn new(access: A) -> Self {
        HartTimer(access)
    }

    /// Lets the machine timer rest. At a reset its deadline is zero: it would be
    /// pending, though masked, for as long as the machine runs, and QEMU runs a hart
    /// with anything pending at a third of its speed.
    pub fn stop_machine_timer(self) {
        self.0.set_mtimecmp(NEVER);
    }

    /// Sets the S-mode timer (SBI 3.0, chapter 6).
    pub fn set_supervisor_timer(self, deadline: u64) {
        if self.0.has_sstc() {
            self.0.set_stimecmp(deadline);
        } else if self.0.has_machine_timer() {
            self.0.set_supervisor_pending(false);
            self.0.set_mtimecmp(deadline);
            self.0.enable_machine_timer(true);
        }
    }

    /// When the S-mode timer is to ring, where machine mode keeps it for the OS,
    /// [`NEVER`] when it is not set; `None` where it is the OS's own (Sstc). A timer
    /// that has rung rings again: the OS may not have seen it.
    pub fn supervisor_deadline(self) -> Option<u64> {
        if self.0.has_sstc() {
            return None;
        }
        let is_set = self.0.enabled() & MTI != 0 || self.0.pending() & STI != 0;
        Some(if is_set { self.0.mtimecmp() } else { NEVER })
    }

    /// Hands an expired machine timer on to the OS as its own. It is enabled again
    /// with the next deadline.
    pub fn forward(self) {
        self.0.enable_machine_timer(false);
        self.0.set_supervisor_pending(true);
    }

    /// Has the hart rest until `until`, whatever is pending for the OS. A hart
    /// without a timer goes on at once.
    pub fn rest_until(self, until: u64) {
        let held = HeldTimer::hold(self);
        held.wait(0, until);
        held.give_back();
    }
}

/// The calling hart's machine timer while machine mode needs it for itself, and
/// what the OS had set it to, where it is the OS's timer too; also which interrupts
/// the OS had enabled.
#[derive(Debug)]
pub struct HeldTimer<A> {
    timer: HartTimer<A>,
    /// When the OS's timer rings; all ones when it does not.
    deadline: u64,
    /// `mie` as the OS left it.
    enabled: u64,
    has_rung: bool,
}

impl<A: TimerAccess> HeldTimer<A> {
    /// Takes it.
    pub fn hold(timer: HartTimer<A>) -> Self {
        let deadline = timer.supervisor_deadline();
        HeldTimer {
            timer,
            deadline: deadline.unwrap_or_else(|| timer.0.stimecmp()),
            enabled: timer.0.enabled(),
            has_rung: false,
        }
    }

    /// `mie` as the OS left it.
    pub fn enabled(&self) -> u64 {
        self.enabled
    }

    /// When the OS's timer rings, if it does and the OS has enabled its interrupt.
    pub fn due(&self) -> Option<u64> {
        (self.deadline != NEVER && self.enabled & STI != 0).then_some(self.deadline)
    }

    /// Lets the OS's timer ring if that is machine mode's to do.
    pub fn ring_if_due(&mut self, now: u64) {
        if !self.timer.0.has_sstc() && !self.has_rung && self.deadline <= now {
            self.timer.forward();
            self.has_rung = true;
        }
    }

    /// Waits until `until`, for an interrupt that the OS has enabled, or for an IPI.
    /// A hart without a timer looks again at once.
    pub fn rest(&self, until: u64) {
        self.wait(self.enabled, until);
    }

    fn wait(&self, enabled: u64, until: u64) {
        let access = self.timer.0;
        if !access.has_machine_timer() {
            core::hint::spin_loop();
            return;
        }
        access.set_mtimecmp(until);
        access.set_enabled(enabled | MTI | MSI | MEI);
        access.wait();
        access.set_mtimecmp(NEVER);
    }

    /// Gives it back as the OS set it.
    pub fn give_back(self) {
        let access = self.timer.0;
        // The timer's own bit is set with the timer.
        access.set_enabled(self.enabled & !MTI);
        if access.has_sstc() || !access.has_machine_timer() {
            return;
        }
        access.set_mtimecmp(self.deadline);
        if !self.has_rung && self.deadline != NEVER {
            access.enable_machine_timer(true);
        }
    }
}
