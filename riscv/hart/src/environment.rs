use poorwill_devicetree::Extensions;

use crate::interrupt::{MEI, MSI, OF_THE_OS};

/// Exceptions that go to the OS at once: all but its calls, which are the firmware's
/// (privileged specification, table 3.6; H extension, table 8.6).
const DELEGATED_EXCEPTIONS: u64 = 0x00f0_b5ff;

/// Bits of `menvcfg` (privileged specification, 3.1.18).
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
mod mseccfg {
    /// S-mode may read the seed CSR (Zkr).
    pub(super) const SSEED: u64 = 1 << 9;
}

/// CYCLE, TIME and INSTRET, as `mcounteren` and `scounteren` have them.
const COUNTERS: u64 = 0b111;

/// What the CSRs of a hart hold when an OS starts on it: those of machine mode that
/// let the OS have what the hart can do, and the S-mode ones that the OS must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `medeleg`.
    pub medeleg: u64,
    /// `mideleg`.
    pub mideleg: u64,
    /// `mie`: what machine mode itself is interrupted by.
    pub mie: u64,
    /// `mcounteren`, and `scounteren`.
    pub counters: u64,
    /// `menvcfg`; a hart may lack it.
    pub menvcfg: u64,
    /// `mstateen0`, where there is Smstateen.
    pub mstateen0: Option<u64>,
    /// Bits to set in `mseccfg`, where there are any. Not all entropy is to come
    /// from the firmware.
    pub mseccfg: Option<u64>,
    /// `stimecmp`, where there is Sstc: no timer is set.
    pub stimecmp: Option<u64>,
}

impl Environment {
    /// That of a hart with these extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        let bit = |there: bool, bits: u64| if there { bits } else { 0 };
        let cache_blocks = extensions.zicbom || extensions.zicboz;
        Environment {
            medeleg: DELEGATED_EXCEPTIONS,
            mideleg: OF_THE_OS,
            mie: MSI | MEI,
            counters: COUNTERS,
            menvcfg: bit(extensions.sstc, menvcfg::STCE)
                | bit(extensions.svadu, menvcfg::ADUE)
                | bit(extensions.svpbmt, menvcfg::PBMTE)
                | bit(cache_blocks, menvcfg::CACHE_BLOCKS),
            mstateen0: extensions.smstateen.then_some(STATE_ENABLES),
            mseccfg: extensions.zkr.then_some(mseccfg::SSEED),
            stimecmp: extensions.sstc.then_some(crate::NEVER),
        }
    }
}
