//! The CSRs of machine mode, and those that the OS finds at a start.

use super::ThisHart;
use crate::arch;
use crate::arch::csr::{self, interrupt};

/// Exceptions that go to the OS at once: all but its calls, which are ours
/// (privileged specification, table 3.6; H extension, table 8.6).
const DELEGATED_EXCEPTIONS: u64 = 0x00f0_b5ff;

/// Bits of `menvcfg`.
mod menvcfg {
    /// CBO.INVAL executes as a flush; CBO.CLEAN, FLUSH and ZERO are allowed.
    pub(super) const CACHE_BLOCKS: u64 = 0b11 << 4 | 1 << 6 | 1 << 7;
    /// Hardware may set A and D bits.
    pub(super) const ADUE: u64 = 1 << 61;
    /// Page-based memory types.
    pub(super) const PBMTE: u64 = 1 << 62;
    /// S-mode has its own timer.
    pub(super) const STCE: u64 = 1 << 63;
}

/// `mstateen0`: all state that S-mode may reach (Smstateen; AIA, 2.5).
const STATE_ENABLES: u64 = 1 << 63 | 1 << 62 | 1 << 60 | 1 << 59 | 1 << 58 | 1 << 57;

/// Bits of `mseccfg`.
mod security {
    /// S-mode may read the seed CSR (Zkr).
    pub(super) const SSEED: u64 = 1 << 9;
}

/// CYCLE, TIME and INSTRET for S-mode.
const COUNTERS: u64 = 0b111;

/// Gives the calling hart the machine-mode CSRs that an OS on it needs; also
/// the S-mode ones that it must find at a start (interrupts off).
pub(crate) fn set_up_csrs(hart: ThisHart) {
    let extensions = hart.description.extensions;
    let bit = |there: bool, bits: u64| if there { bits } else { 0 };
    let environment = bit(extensions.sstc, menvcfg::STCE)
        | bit(extensions.svadu, menvcfg::ADUE)
        | bit(extensions.svpbmt, menvcfg::PBMTE)
        | bit(
            extensions.zicbom || extensions.zicboz,
            menvcfg::CACHE_BLOCKS,
        );
    // SAFETY: these are the settings that the trap handler (trap.rs) relies on;
    // CSRs that the hart may lack are skipped.
    unsafe {
        csr::write::<{ csr::MTVEC }>(arch::trap_entry as *const () as u64);
        csr::write::<{ csr::MEDELEG }>(DELEGATED_EXCEPTIONS);
        csr::write::<{ csr::MIDELEG }>(
            interrupt::SSI | interrupt::STI | interrupt::SEI | interrupt::LCOFI,
        );
        csr::write::<{ csr::MCOUNTEREN }>(COUNTERS);
        csr::try_write::<{ csr::MENVCFG }>(environment);
        if extensions.smstateen {
            csr::try_write::<{ csr::MSTATEEN0 }>(STATE_ENABLES);
        }
        if extensions.zkr
            && let Some(security) = csr::try_read::<{ csr::MSECCFG }>()
        {
            // Not all entropy is to come from us.
            csr::try_write::<{ csr::MSECCFG }>(security | security::SSEED);
        }
        if extensions.sstc {
            // No timer is set.
            csr::write::<{ csr::STIMECMP }>(u64::MAX);
        }
        csr::write::<{ csr::SIE }>(0);
        csr::write::<{ csr::SCOUNTEREN }>(COUNTERS);
        csr::write::<{ csr::MIE }>(interrupt::MSI | interrupt::MEI);
    }
    hart.timer().stop_machine_timer();
}
