use poorwill_devicetree::Extensions;

use crate::emulation::cause;
use crate::interrupt::OF_THE_OS;

/// Exceptions that go to the OS at once: all but its calls, which are the firmware's
/// (privileged specification, table 3.6; H extension, table 8.6).
const DELEGATED_EXCEPTIONS: u64 = 0x00f0_b5ff;

/// Those of them by which mediated registers are told.
const MEDIATED_EXCEPTIONS: u64 = 1 << cause::LOAD_ACCESS | 1 << cause::STORE_ACCESS;

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
    // Not set: shadow stacks (SSE), landing pads (LPE) and double traps (DTE) of S-mode. An
    // OS that does not know of them would not survive them; SBI has them off at a start
    // (3.0, chapter 18).
}

/// Bits of `mstateen0` (Smstateen): all that the specifications say of state that S-mode
/// may reach. Custom state stays closed.
const STATE_ENABLES: u64 = {
    const OF_SSTATEEN0: u64 = 1 << 63;
    const OF_HENVCFG: u64 = 1 << 62;
    /// Indirect CSRs, AIA's own, IMSIC's (AIA, 2.5).
    const OF_AIA: u64 = 1 << 60 | 1 << 59 | 1 << 58;
    const OF_CONTEXT: u64 = 1 << 57;
    /// Ssqosid.
    const SRMCFG: u64 = 1 << 55;
    /// Control transfer records (Ssctr).
    const CTR: u64 = 1 << 54;
    /// The jump table of Zcmt.
    const JVT: u64 = 1 << 2;
    /// `fcsr` where there is Zfinx.
    const FCSR: u64 = 1 << 1;
    OF_SSTATEEN0 | OF_HENVCFG | OF_AIA | OF_CONTEXT | SRMCFG | CTR | JVT | FCSR
};

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

/// What machine mode keeps for itself on a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What it answers of its own interrupts; no other is enabled.
    pub interrupts: u64,
    /// Access faults, as some registers are mediated.
    pub access_faults: bool,
}

impl Environment {
    /// That of a hart with these extensions, of which machine mode keeps something.
    #[must_use]
    pub fn of(extensions: &Extensions, kept: Kept) -> Self {
        let bit = |there: bool, bits: u64| if there { bits } else { 0 };
        let cache_blocks = extensions.zicbom || extensions.zicboz;
        Environment {
            medeleg: DELEGATED_EXCEPTIONS & !bit(kept.access_faults, MEDIATED_EXCEPTIONS),
            mideleg: OF_THE_OS,
            mie: kept.interrupts,
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
