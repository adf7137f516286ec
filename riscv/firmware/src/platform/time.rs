//! Time: `mtime`, the timer of each hart, and the real-time clock.

use poorwill_devicetree::{self as devicetree, Machine};
use poorwill_drivers::GoldfishRtc;
use poorwill_drivers::clint::{Mtime, Timebase, Timer};
use poorwill_hart::{NEVER, TimerAccess};
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

/// A hart's timers.
pub(crate) type HartTimer = poorwill_hart::HartTimer<TimerRegisters>;

/// The calling hart's timer while machine mode needs it for itself.
pub(crate) type HeldTimer = poorwill_hart::HeldTimer<TimerRegisters>;

/// A hart's timer registers: MTIMECMP, and the calling hart's CSRs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerRegisters {
    mtimecmp: Option<Timer<Mmio>>,
    has_sstc: bool,
}

/// The timers that the device tree names.
///
/// # Safety
///
/// It is a hart of this machine.
pub(crate) unsafe fn hart_timer(hart: &devicetree::Hart) -> HartTimer {
    // SAFETY: the tree, which is right, says the caller, names this address as a
    // timer of this machine.
    let mmio = |address| unsafe { Mmio::new(address) };
    HartTimer::new(TimerRegisters {
        mtimecmp: hart.mtimecmp.map(mmio).map(Timer::new),
        has_sstc: hart.extensions.sstc,
    })
}

impl TimerAccess for TimerRegisters {
    fn has_sstc(&self) -> bool {
        self.has_sstc
    }

    fn has_machine_timer(&self) -> bool {
        self.mtimecmp.is_some()
    }

    fn mtimecmp(&self) -> u64 {
        self.mtimecmp.map_or(NEVER, |timer| timer.deadline())
    }

    fn set_mtimecmp(&self, deadline: u64) {
        if let Some(timer) = self.mtimecmp {
            timer.set(deadline);
        }
    }

    fn stimecmp(&self) -> u64 {
        csr::read::<{ csr::STIMECMP }>()
    }

    fn set_stimecmp(&self, deadline: u64) {
        // SAFETY: the OS's timer, and nothing else.
        unsafe { csr::write::<{ csr::STIMECMP }>(deadline) }
    }

    fn enabled(&self) -> u64 {
        csr::read::<{ csr::MIE }>()
    }

    fn set_enabled(&self, bits: u64) {
        // SAFETY: machine mode has its interrupts off: its bits only end waits, and
        // the others are what the OS had.
        unsafe { csr::write::<{ csr::MIE }>(bits) }
    }

    fn enable_machine_timer(&self, is_enabled: bool) {
        // SAFETY: the OS's timer, where machine mode keeps it, and nothing else.
        unsafe {
            if is_enabled {
                csr::set::<{ csr::MIE }>(interrupt::MTI);
            } else {
                csr::clear::<{ csr::MIE }>(interrupt::MTI);
            }
        }
    }

    fn pending(&self) -> u64 {
        csr::read::<{ csr::MIP }>()
    }

    fn set_supervisor_pending(&self, is_pending: bool) {
        // SAFETY: STIP is the OS's view of its timer.
        unsafe {
            if is_pending {
                csr::set::<{ csr::MIP }>(interrupt::STI);
            } else {
                csr::clear::<{ csr::MIP }>(interrupt::STI);
            }
        }
    }

    fn wait(&self) {
        fence::after_device_write();
        arch::wait_for_interrupt();
    }
}
