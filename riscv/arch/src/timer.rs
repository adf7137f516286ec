//! A hart's timers: MTIMECMP and the timer CSRs.

use poorwill_drivers::clint::Timer;
use poorwill_hart::interrupt;
use poorwill_hart::{NEVER, TimerAccess};

use crate::mmio::Mmio;
use crate::{csr, fence, wait_for_interrupt};

/// A hart's timers.
pub type HartTimer = poorwill_hart::HartTimer<TimerRegisters>;

/// The calling hart's timer while machine mode uses it.
pub type HeldTimer = poorwill_hart::HeldTimer<TimerRegisters>;

/// A hart's timer registers: MTIMECMP, and the calling hart's CSRs.
#[derive(Clone, Copy, Debug)]
pub struct TimerRegisters {
    mtimecmp: Option<Timer<Mmio>>,
    has_sstc: bool,
}

impl TimerRegisters {
    /// `mtimecmp`: the address of the hart's MTIMECMP, if it has one. `has_sstc`: the hart has
    /// `stimecmp`.
    ///
    /// # Safety
    ///
    /// Both are true of the hart on which the value is used.
    pub unsafe fn new(mtimecmp: Option<u64>, has_sstc: bool) -> Self {
        // SAFETY: by the caller's contract.
        let mmio = |address| unsafe { Mmio::new(address) };
        TimerRegisters {
            mtimecmp: mtimecmp.map(mmio).map(Timer::new),
            has_sstc,
        }
    }
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
        // SAFETY: only affects the OS's timer.
        unsafe { csr::write::<{ csr::STIMECMP }>(deadline) }
    }

    fn enabled(&self) -> u64 {
        csr::read::<{ csr::MIE }>()
    }

    fn set_enabled(&self, bits: u64) {
        // SAFETY: machine mode's interrupts are off, so its own bits only end waits. The other bits
        // have the OS's values.
        unsafe { csr::write::<{ csr::MIE }>(bits) }
    }

    fn enable_machine_timer(&self, is_enabled: bool) {
        // SAFETY: only affects the OS's timer.
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
        wait_for_interrupt();
    }
}
