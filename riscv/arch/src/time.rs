//! Time: `mtime`, the timer of each hart, and the real-time clock.

use poorwill_devicetree::{self as devicetree, Machine};
use poorwill_drivers::clint::{Mtime, Timebase};
use poorwill_drivers::{GoldfishRtc, RtcState};
use poorwill_medium::Clock;

use crate::{HartTimer, Mmio, TimerRegisters, csr};

/// The machine's time.
#[derive(Clone, Debug)]
pub struct Time {
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
    pub unsafe fn new(machine: &Machine) -> Self {
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
    pub fn ticks(&self) -> u64 {
        if self.has_csr {
            return csr::read::<{ csr::TIME }>();
        }
        // A machine without a time register was refused at the start.
        self.mtime.ticks()
    }

    /// Sets `time`, for all harts.
    pub fn set_ticks(&self, ticks: u64) {
        self.mtime.set(ticks);
    }

    /// Ticks in so many nanoseconds.
    pub fn ticks_in(&self, nanoseconds: u64) -> u64 {
        self.base.ticks_in(nanoseconds)
    }

    /// Milliseconds in so many ticks.
    pub fn milliseconds_in(&self, ticks: u64) -> u64 {
        self.base.milliseconds_in(ticks)
    }

    /// Microseconds in so many ticks.
    pub fn microseconds_in(&self, ticks: u64) -> u64 {
        self.base.microseconds_in(ticks)
    }

    /// Milliseconds since `began`, in ticks; 0 where that is still to come.
    pub fn milliseconds_since(&self, began: u64) -> u64 {
        self.milliseconds_in(self.ticks().saturating_sub(began))
    }

    /// Nanoseconds since the Unix epoch; `None` on a machine without a clock
    /// that runs while the power is off.
    pub fn now_ns(&self) -> Option<u64> {
        Some(self.rtc?.now_ns())
    }

    /// What the OS has left in the clock, before anything reads the time there.
    pub fn clock_state(&self) -> Option<RtcState> {
        self.rtc.as_ref().map(GoldfishRtc::capture)
    }

    /// Puts it back: its alarm last, of which the OS is to hear. Where there is no clock
    /// nothing happens; whether all of it is back.
    pub fn put_back_clock(&self, state: &RtcState) -> bool {
        self.rtc.as_ref().is_none_or(|rtc| {
            let is_latched = rtc.put_back_latch(state);
            rtc.put_back_alarm(state);
            is_latched
        })
    }

    /// Ticks until the clock's alarm falls due, 0 if it has and nobody has taken
    /// notice; `None` without an alarm.
    ///
    /// The OS may have switched the interrupt off at its controller before it
    /// went to sleep, so that only the clock knows.
    pub fn alarm_in(&self) -> Option<u64> {
        Some(self.ticks_in(self.rtc?.alarm_in_ns()?))
    }
}

impl Clock for Time {
    fn milliseconds(&self) -> u64 {
        self.milliseconds_in(self.ticks())
    }
}

/// The timers that the device tree names.
///
/// # Safety
///
/// It is a hart of this machine.
pub unsafe fn hart_timer(hart: &devicetree::Hart) -> HartTimer {
    // SAFETY: the tree is right, says the caller.
    let registers = unsafe { TimerRegisters::new(hart.mtimecmp, hart.extensions.sstc) };
    HartTimer::new(registers)
}
