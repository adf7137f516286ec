//! Time: `mtime`, the harts' timers, and the real-time clock.

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_clock::Clock;
use poorwill_devicetree::{self as devicetree, Machine};
use poorwill_drivers::clint::{Mtime, Timebase};
use poorwill_drivers::{GoldfishRtc, RtcState};

use crate::{HartTimer, Mmio, TimerRegisters, csr};

/// A hart of the machine lacks the `time` CSR, so that machine mode reads MTIME on all harts.
static LACKS_CSR: AtomicBool = AtomicBool::new(false);

/// Asks the calling hart for the `time` CSR; returns whether it has it.
pub(crate) fn ask_hart() -> bool {
    let has_csr = csr::try_read::<{ csr::TIME }>().is_some();
    if !has_csr {
        LACKS_CSR.store(true, Ordering::Relaxed);
    }
    has_csr
}

/// The machine's clocks: `time`, and a real-time clock if there is one.
#[derive(Clone, Debug)]
pub struct Time {
    mtime: Mtime<Mmio>,
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
        // SAFETY: by the caller's contract the tree is right; it names these addresses as clocks.
        let mmio = |address: u64| unsafe { Mmio::new(address) };
        ask_hart();
        Time {
            mtime: Mtime::new(machine.mtime.iter().copied().map(mmio).collect()),
            base: Timebase::new(machine.timebase_hz),
            rtc: machine.rtc.map(mmio).map(GoldfishRtc::new),
        }
    }

    /// Current value of `time`. Waiting loops read it constantly, so a CSR is preferred. A device
    /// register costs a bus access, and under QEMU a lock that devices need for their own work.
    pub fn ticks(&self) -> u64 {
        if LACKS_CSR.load(Ordering::Relaxed) {
            // The boot path refuses machines without MTIME.
            return self.mtime.ticks();
        }
        csr::read::<{ csr::TIME }>()
    }

    /// Sets `time`, for all harts.
    pub fn set_ticks(&self, ticks: u64) {
        self.mtime.set(ticks);
    }

    /// Converts nanoseconds to ticks.
    pub fn ticks_in(&self, nanoseconds: u64) -> u64 {
        self.base.ticks_in(nanoseconds)
    }

    /// Converts ticks to milliseconds.
    pub fn milliseconds_in(&self, ticks: u64) -> u64 {
        self.base.milliseconds_in(ticks)
    }

    /// Converts ticks to microseconds.
    pub fn microseconds_in(&self, ticks: u64) -> u64 {
        self.base.microseconds_in(ticks)
    }

    /// Milliseconds since `began` (in ticks); 0 if that lies in the future.
    pub fn milliseconds_since(&self, began: u64) -> u64 {
        self.milliseconds_in(self.ticks().saturating_sub(began))
    }

    /// Nanoseconds since the Unix epoch; `None` without a clock that runs while the power is off.
    pub fn now_ns(&self) -> Option<u64> {
        Some(self.rtc?.now_ns())
    }

    /// Captures the OS's state of the clock. The firmware must not have read the clock before: a
    /// read changes this state.
    pub fn clock_state(&self) -> Option<RtcState> {
        self.rtc.as_ref().map(GoldfishRtc::capture)
    }

    /// Restores the OS's state of the clock, its alarm last, since the alarm may interrupt the OS.
    /// Returns false if part of it could not be restored; without a clock there is nothing to do.
    pub fn put_back_clock(&self, state: &RtcState) -> bool {
        self.rtc.as_ref().is_none_or(|rtc| {
            let is_latched = rtc.put_back_latch(state);
            rtc.put_back_alarm(state);
            is_latched
        })
    }

    /// Restores the alarm alone, of an OS that was suspended.
    pub fn put_back_alarm(&self, state: &RtcState) {
        if let Some(rtc) = &self.rtc {
            rtc.put_back_alarm(state);
        }
    }

    /// Ticks until the clock's alarm is due, 0 if it is overdue and unacknowledged; `None` without
    /// an alarm.
    ///
    /// The OS may have disabled the alarm's interrupt at its controller before it went to sleep.
    /// The alarm then raises no interrupt, so the firmware asks the clock.
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
/// `hart` describes a hart of this machine.
pub unsafe fn hart_timer(hart: &devicetree::Hart) -> HartTimer {
    // SAFETY: by the caller's contract the tree is right.
    let registers = unsafe { TimerRegisters::new(hart.mtimecmp, hart.extensions.sstc) };
    HartTimer::new(registers)
}
