//! Time: `mtime`, the timer of each hart, and the real-time clock.

use poorwill_devicetree::{self as devicetree, Machine};
use poorwill_drivers::GoldfishRtc;
use poorwill_drivers::clint::{Mtime, NEVER, Timebase, Timer};
use poorwill_medium::Clock;

use super::mmio::Mmio;
use crate::arch::csr::{self, interrupt};
use crate::arch::{self, fence};

/// The machine's time.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    mtime: Mtime<Mmio>,
    /// The harts have the CSR that shows the counter; asked of the boot hart, for
    /// machines whose harts are alike.
    has_csr: bool,
    base: Timebase,
    rtc: Option<GoldfishRtc<Mmio>>,
}

impl Time {
    /// The clocks that the device tree names.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine.
    pub(crate) unsafe fn new(machine: &Machine) -> Self {
        // SAFETY: the tree, which is right, says the caller, names these addresses
        // as clocks of this machine.
        let mmio = |address: u64| unsafe { Mmio::new(address) };
        Time {
            mtime: Mtime::new(machine.mtime.iter().copied().map(mmio).collect()),
            has_csr: csr::try_read::<{ csr::TIME }>().is_some(),
            base: Timebase::new(machine.timebase_hz),
            rtc: machine.rtc.map(mmio).map(GoldfishRtc::new),
        }
    }

    /// Ticks of `time` now. Loops that wait look at it all the time: a CSR is next
    /// to them, a register costs the bus, and under QEMU a lock that its devices
    /// need for their own work.
    pub(crate) fn ticks(&self) -> u64 {
        if self.has_csr {
            return csr::read::<{ csr::TIME }>();
        }
        // A machine without a time register was refused at the start.
        self.mtime.ticks()
    }

    /// Sets `time`, for all harts.
    pub(crate) fn set_ticks(&self, ticks: u64) {
        self.mtime.set(ticks);
    }

    /// Ticks in so many nanoseconds.
    pub(crate) fn ticks_in(&self, nanoseconds: u64) -> u64 {
        self.base.ticks_in(nanoseconds)
    }

    /// Milliseconds in so many ticks.
    pub(crate) fn milliseconds_in(&self, ticks: u64) -> u64 {
        self.base.milliseconds_in(ticks)
    }

    /// Milliseconds since `began`, in ticks; 0 where that is still to come.
    pub(crate) fn milliseconds_since(&self, began: u64) -> u64 {
        self.milliseconds_in(self.ticks().saturating_sub(began))
    }

    /// Nanoseconds since the Unix epoch; `None` on a machine without a clock
    /// that runs while the power is off.
    pub(crate) fn now_ns(&self) -> Option<u64> {
        Some(self.rtc?.now_ns())
    }

    /// Ticks until the clock's alarm falls due, 0 if it has and nobody has taken
    /// notice; `None` without an alarm.
    ///
    /// The OS may have switched the interrupt off at its controller before it
    /// went to sleep, so that only the clock knows.
    pub(crate) fn alarm_in(&self) -> Option<u64> {
        Some(self.ticks_in(self.rtc?.alarm_in_ns()?))
    }
}

impl Clock for Time {
    fn milliseconds(&self) -> u64 {
        self.milliseconds_in(self.ticks())
    }
}

/// A hart's timers: its machine timer, and whether the OS has one of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HartTimer {
    register: Option<Timer<Mmio>>,
    has_sstc: bool,
}

impl HartTimer {
    /// Those that the device tree names.
    ///
    /// # Safety
    ///
    /// It is a hart of this machine.
    pub(crate) unsafe fn new(hart: &devicetree::Hart) -> Self {
        // SAFETY: the tree, which is right, says the caller, names this address as a
        // timer of this machine.
        let mmio = |address| unsafe { Mmio::new(address) };
        HartTimer {
            register: hart.mtimecmp.map(mmio).map(Timer::new),
            has_sstc: hart.extensions.sstc,
        }
    }

    /// Lets the machine timer rest. At a reset its deadline is zero: it would be
    /// pending, though masked, for as long as the machine runs, and QEMU runs a hart
    /// with anything pending at a third of its speed.
    pub(crate) fn stop_machine_timer(self) {
        if let Some(timer) = self.register {
            timer.stop();
        }
    }

    /// Sets the calling hart's S-mode timer (SBI 3.0, chapter 6).
    pub(crate) fn set_supervisor_timer(self, deadline: u64) {
        // SAFETY: these bits and registers are the OS's timer and nothing else.
        unsafe {
            if self.has_sstc {
                csr::write::<{ csr::STIMECMP }>(deadline);
            } else if let Some(timer) = self.register {
                csr::clear::<{ csr::MIP }>(interrupt::STI);
                timer.set(deadline);
                csr::set::<{ csr::MIE }>(interrupt::MTI);
            }
        }
    }

    /// When the calling hart's S-mode timer is to ring, where machine mode keeps it
    /// for the OS, [`NEVER`] when it is not set; `None` where it is the OS's own
    /// (Sstc). A timer that has rung rings again: the OS may not have seen it.
    pub(crate) fn supervisor_deadline(self) -> Option<u64> {
        if self.has_sstc {
            return None;
        }
        let is_set = csr::read::<{ csr::MIE }>() & interrupt::MTI != 0
            || csr::read::<{ csr::MIP }>() & interrupt::STI != 0;
        let timer = self.register.filter(|_| is_set);
        Some(timer.map_or(NEVER, |timer| timer.deadline()))
    }
}

/// The calling hart's machine timer while machine mode needs it for itself, and
/// what the OS had set it to, where it is the OS's timer too.
#[derive(Debug)]
pub(crate) struct HeldTimer {
    timer: HartTimer,
    /// When the OS's timer rings; all ones when it does not.
    deadline: u64,
    has_rung: bool,
}

impl HeldTimer {
    /// Takes it.
    pub(crate) fn hold(timer: HartTimer) -> Self {
        let deadline = timer.supervisor_deadline();
        HeldTimer {
            timer,
            deadline: deadline.unwrap_or_else(csr::read::<{ csr::STIMECMP }>),
            has_rung: false,
        }
    }

    /// When the OS's timer rings, if it does.
    pub(crate) fn due(&self) -> Option<u64> {
        (self.deadline != NEVER).then_some(self.deadline)
    }

    /// Lets the OS's timer ring if that is machine mode's to do.
    pub(crate) fn ring_if_due(&mut self, now: u64) {
        if !self.timer.has_sstc && !self.has_rung && self.deadline <= now {
            forward_timer();
            self.has_rung = true;
        }
    }

    /// Waits until `until`, for one of the interrupts `enabled`, or for an IPI.
    /// A hart without a timer looks again at once.
    pub(crate) fn rest(&self, enabled: u64, until: u64) {
        let Some(timer) = self.timer.register else {
            core::hint::spin_loop();
            return;
        };
        let own = interrupt::MTI | interrupt::MSI | interrupt::MEI;
        timer.set(until);
        fence::after_device_write();
        // SAFETY: machine mode has its interrupts off: these only end the wait,
        // and the caller puts them back.
        unsafe { csr::write::<{ csr::MIE }>(enabled | own) };
        arch::wait_for_interrupt();
        timer.stop();
    }

    /// Gives it back as the OS set it.
    pub(crate) fn give_back(self) {
        let HartTimer { register, has_sstc } = self.timer;
        let Some(timer) = register.filter(|_| !has_sstc) else {
            return;
        };
        timer.set(self.deadline);
        if !self.has_rung && self.deadline != NEVER {
            // SAFETY: the OS's timer, and nothing else.
            unsafe { csr::set::<{ csr::MIE }>(interrupt::MTI) };
        }
    }
}

/// Has the calling hart rest until `until`, whatever is pending for the OS. A hart
/// without a timer goes on at once.
pub(crate) fn rest_until(timer: HartTimer, until: u64) {
    let enabled = csr::read::<{ csr::MIE }>();
    let timer = HeldTimer::hold(timer);
    timer.rest(0, until);
    // SAFETY: what it was; the timer's own bit is set with the timer.
    unsafe { csr::write::<{ csr::MIE }>(enabled & !interrupt::MTI) };
    timer.give_back();
}

/// Hands an expired machine timer on to the OS as its own.
pub(crate) fn forward_timer() {
    // SAFETY: STIP is the OS's view of its timer; MTIE is set again with the
    // next deadline.
    unsafe {
        csr::clear::<{ csr::MIE }>(interrupt::MTI);
        csr::set::<{ csr::MIP }>(interrupt::STI);
    }
}
