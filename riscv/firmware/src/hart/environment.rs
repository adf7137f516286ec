//! The CSRs of machine mode, and those that the OS finds at a start.

use poorwill_hart::Environment;

use super::ThisHart;
use crate::arch;
use crate::arch::csr;

/// Gives the calling hart the machine-mode CSRs that an OS on it needs; also
/// the S-mode ones that it must find at a start (interrupts off).
pub(crate) fn set_up_csrs(hart: ThisHart) {
    let environment = Environment::of(&hart.description.extensions);
    // SAFETY: these are the settings that the trap handler (trap.rs) relies on;
    // CSRs that the hart may lack are skipped.
    unsafe {
        csr::write::<{ csr::MTVEC }>(arch::trap_entry as *const () as u64);
        csr::write::<{ csr::MEDELEG }>(environment.medeleg);
        csr::write::<{ csr::MIDELEG }>(environment.mideleg);
        csr::write::<{ csr::MCOUNTEREN }>(environment.counters);
        csr::try_write::<{ csr::MENVCFG }>(environment.menvcfg);
        if let Some(bits) = environment.mstateen0 {
            csr::try_write::<{ csr::MSTATEEN0 }>(bits);
        }
        if let Some(bits) = environment.mseccfg
            && let Some(security) = csr::try_read::<{ csr::MSECCFG }>()
        {
            csr::try_write::<{ csr::MSECCFG }>(security | bits);
        }
        if let Some(never) = environment.stimecmp {
            csr::write::<{ csr::STIMECMP }>(never);
        }
        csr::write::<{ csr::SIE }>(0);
        csr::write::<{ csr::SCOUNTEREN }>(environment.counters);
        csr::write::<{ csr::MIE }>(environment.mie);
    }
    hart.timer().stop_machine_timer();
}
