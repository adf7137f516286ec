//! Machine-mode CSRs, and the S-mode CSRs that an OS starts with.

use poorwill_hart::Environment;
use thiserror::Error;

use crate::csr::{self, status};
use crate::{float, vector};

/// An OS that believes the tree would have no timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device tree lists Sstc, but there is no stimecmp")]
pub struct NoStimecmp;

/// Sets the calling hart's machine-mode CSRs for an OS, and the S-mode CSRs to their values at a
/// start (interrupts off). Traps go to `trap_entry`.
///
/// # Errors
///
/// [`NoStimecmp`].
///
/// # Safety
///
/// `trap_entry` is aligned code that handles all traps that `environment` does not delegate.
/// `environment` fits this hart.
pub unsafe fn set_up(environment: &Environment, trap_entry: u64) -> Result<(), NoStimecmp> {
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
        if let Some(never) = environment.stimecmp
            && !csr::try_write::<{ csr::STIMECMP }>(never)
        {
            return Err(NoStimecmp);
        }
        csr::write::<{ csr::SIE }>(0);
        csr::write::<{ csr::SCOUNTEREN }>(environment.counters);
        csr::write::<{ csr::MIE }>(environment.mie);
    }
    Ok(())
}

/// Sets the calling hart's `sstatus`, floating-point and vector registers for the first instruction
/// of an OS. The registers are zero, and FS and VS Initial if the hart has them, as an OS may use
/// them without a look at `sstatus`. All other bits are zero.
pub fn clear_units() {
    let of = |is_there: bool, initial: u64| if is_there { initial } else { 0 };
    let float = of(float::clear(), status::FS_INITIAL);
    let vector = of(vector::clear(), status::VS_INITIAL);
    // SAFETY: all bits of sstatus are the OS's, which does not run on this hart.
    unsafe { csr::write::<{ csr::SSTATUS }>(float | vector) }
}
