//! Machine-mode CSRs, and the S-mode CSRs that an OS starts with.

use poorwill_hart::Environment;

use crate::csr;

/// Sets the calling hart's machine-mode CSRs for an OS, and the S-mode CSRs to their values at a
/// start (interrupts off). Traps go to `trap_entry`.
///
/// # Safety
///
/// `trap_entry` is aligned code that handles all traps that `environment` does not delegate.
/// `environment` fits this hart.
pub unsafe fn set_up(environment: &Environment, trap_entry: u64) {
    // SAFETY: the caller's handler expects these settings. CSRs that the hart may lack are skipped.
    unsafe {
        csr::write::<{ csr::MTVEC }>(trap_entry);
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
}
