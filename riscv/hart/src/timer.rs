//! The timers of a hart: machine mode's, and the OS's. S-mode sets the OS's timer itself (Sstc), or
//! machine mode keeps it.

use crate::interrupt::{MEI, MSI, MTI, STI};

/// A deadline that never comes (SBI 3.0, chapter 6: all ones).
pub const NEVER: u64 = u64::MAX;

/// The calling hart's timers, and their bits in its CSRs. Machine mode's interrupts are off: its
/// bits in `mie` only end waits. The firmware implements it for registers; tests have a model.
pub trait TimerAccess: Copy {
    /// Returns whether S-mode has its own timer (Sstc).
    fn has_sstc(&self) -> bool;

    /// Returns whether the hart has MTIMECMP.
    fn has_machine_timer(&self) -> bool;

    /// MTIMECMP; [`NEVER`] on a hart without it.
    fn mtimecmp(&self) -> u64;

    /// Writes MTIMECMP. Does nothing on a hart without it.
    fn set_mtimecmp(&self, deadline: u64);

    /// Reads `stimecmp`; only with Sstc.
    fn stimecmp(&self) -> u64;

    /// Writes `stimecmp`; only with Sstc.
    fn set_stimecmp(&self, deadline: u64);

    /// Reads `mie`.
    fn enabled(&self) -> u64;

    /// Writes `mie`.
    fn set_enabled(&self, bits: u64);

    /// Sets or clears MTIE in `mie`.
    fn enable_machine_timer(&self, is_enabled: bool);

    /// Reads `mip`.
    fn pending(&self) -> u64;

    /// Sets or clears STIP in `mip`; only without Sstc.
    fn set_supervisor_pending(&self, is_pending: bool);

    /// Waits for an interrupt in `mie`, after device writes have arrived. May return spuriously.
    fn wait(&self);
}

/// A hart's timers. Only the hart itself may call these methods, except
/// [`stop_machine_timer`](HartTimer::stop_machine_timer).
#[derive(Clone, Copy, Debug)]
pub struct HartTimer<A>(A);

impl<A: TimerAccess> HartTimer<A> {
    /// Uses `access`.
    pub fn new(access: A) -> Self {
        HartTimer(access)
    }

    /// Clears the machine timer's deadline. A reset sets it to zero, so the timer would stay
    /// pending, though masked. QEMU runs a hart with a pending interrupt at a third of its speed.
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

    /// Deadline of the S-mode timer if machine mode keeps it, [`NEVER`] if it is not set; `None` if
    /// it is the OS's own (Sstc). An expired timer counts as set, since the OS may not have seen
    /// it.
    pub fn supervisor_deadline(self) -> Option<u64> {
        if self.0.has_sstc() {
            return None;
        }
        let is_set = self.0.enabled() & MTI != 0 || self.0.pending() & STI != 0;
        Some(if is_set { self.0.mtimecmp() } else { NEVER })
    }

    /// Passes an expired machine timer on to the OS as its own. The next deadline enables it again.
    /// With Sstc the expired timer is [machine mode's](Self::set_machine_timer), and is stopped.
    pub fn forward(self) {
        self.0.enable_machine_timer(false);
        if self.0.has_sstc() {
            self.stop_machine_timer();
        } else {
            self.0.set_supervisor_pending(true);
        }
    }

    /// Interrupts the hart in machine mode once, at `deadline`. Does nothing if the machine timer
    /// is missing, or serves the OS.
    pub fn set_machine_timer(self, deadline: u64) {
        if self.0.has_sstc() && self.0.has_machine_timer() {
            self.0.set_mtimecmp(deadline);
            self.0.enable_machine_timer(true);
        }
    }

    /// Lets the hart rest until `until`, regardless of the OS's pending interrupts. A hart without
    /// a timer returns at once.
    pub fn rest_until(self, until: u64) {
        let held = HeldTimer::hold(self);
        held.wait(0, until);
        held.give_back();
    }
}

/// The calling hart's machine timer while machine mode uses it. Holds the OS's deadline, if it is
/// the OS's timer, too, and the OS's `mie`.
#[derive(Debug)]
pub struct HeldTimer<A> {
    timer: HartTimer<A>,
    /// Deadline of the OS's timer; all ones if it is not set.
    deadline: u64,
    /// `mie` as the OS left it.
    enabled: u64,
    has_rung: bool,
}

impl<A: TimerAccess> HeldTimer<A> {
    /// Takes the timer.
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

    /// Deadline of the OS's timer, if it is set and its interrupt is enabled.
    pub fn due(&self) -> Option<u64> {
        (self.deadline != NEVER && self.enabled & STI != 0).then_some(self.deadline)
    }

    /// Raises the OS's timer interrupt if it is due and machine mode keeps the timer.
    pub fn ring_if_due(&mut self, now: u64) {
        if !self.timer.0.has_sstc() && !self.has_rung && self.deadline <= now {
            self.timer.forward();
            self.has_rung = true;
        }
    }

    /// Waits until `until`, for an interrupt that the OS has enabled, or for an IPI. A hart without
    /// a timer returns at once.
    pub fn rest(&self, until: u64) {
        self.wait(self.enabled, until);
    }

    /// Waits for an IPI alone. A hart without a timer returns at once.
    pub fn rest_deep(&self) {
        self.wait(0, NEVER);
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

    /// Restores the OS's deadline and `mie`.
    pub fn give_back(&self) {
        let access = self.timer.0;
        // The timer's own bit is restored with the timer.
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
