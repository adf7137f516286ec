use poorwill_devicetree::Extensions;

use crate::emulation::{COUNTERS, cause};
use crate::interrupt::{OF_THE_OS, SEI};

/// Exceptions that go to the OS directly: all that the specification defines and that an OS can
/// handle (privileged specification, table 3.6; H extension, table 8.6). `medeleg` is WARL: a hart
/// ignores bits of extensions that it lacks.
///
/// The others stay in machine mode:
/// - 9 and 11, calls of S-mode and of machine mode: the firmware serves the first, and no OS can
///   make the second.
/// - 16, a double trap: it cannot be delegated, since S-mode's state is lost (Ssdbltrp).
/// - 14, 17 and 32 to 47 (reserved), 24 to 31 and 48 to 63 (custom): a later specification or a
///   vendor may need machine mode to see them first. The firmware passes those that arrive on to
///   the OS ([`OsTrap`](crate::emulation::OsTrap)).
const DELEGATED_EXCEPTIONS: u64 = {
    const ACCESSES_AND_BREAKPOINTS: u64 = 0xff;
    const CALLS_OF_PROGRAMS_AND_GUESTS: u64 = 1 << 8 | 1 << 10;
    const PAGE_FAULTS: u64 = 1 << 12 | 1 << 13 | 1 << 15;
    /// Landing pads and shadow stacks (Zicfilp, Zicfiss). An OS enables them for its programs
    /// itself (`senvcfg.LPE`).
    const SOFTWARE_CHECK: u64 = 1 << 18;
    const HARDWARE_ERROR: u64 = 1 << cause::HARDWARE_ERROR;
    const OF_GUESTS: u64 = 0xf << 20;
    ACCESSES_AND_BREAKPOINTS
        | CALLS_OF_PROGRAMS_AND_GUESTS
        | PAGE_FAULTS
        | SOFTWARE_CHECK
        | HARDWARE_ERROR
        | OF_GUESTS
};

/// Delegated exception of instructions that a hart lacks.
const ILLEGAL_INSTRUCTION: u64 = 1 << cause::ILLEGAL_INSTRUCTION;

/// Delegated exceptions that mediated registers raise.
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
    // Not set: shadow stacks (SSE), landing pads (LPE) and double traps (DTE) of S-mode. They would
    // break an OS that does not know them; SBI has them off at a start (3.0, chapter 18). DTE clear
    // also clears henvcfg.DTE. So no trap of an OS or a guest becomes a double trap.
}

/// Bits of `mstateen0` (Smstateen): all state that the specifications define for S-mode. Custom
/// state stays closed.
const STATE_ENABLES: u64 = {
    const OF_SSTATEEN0: u64 = 1 << 63;
    const OF_HENVCFG: u64 = 1 << 62;
    /// Indirect CSRs, AIA's own CSRs, the IMSIC's (AIA, 2.5).
    const OF_AIA: u64 = 1 << 60 | 1 << 59 | 1 << 58;
    const OF_CONTEXT: u64 = 1 << 57;
    /// Ssqosid.
    const SRMCFG: u64 = 1 << 55;
    /// Control transfer records (Ssctr).
    const CTR: u64 = 1 << 54;
    /// The jump table of Zcmt.
    const JVT: u64 = 1 << 2;
    /// `fcsr` with Zfinx.
    const FCSR: u64 = 1 << 1;
    OF_SSTATEEN0 | OF_HENVCFG | OF_AIA | OF_CONTEXT | SRMCFG | CTR | JVT | FCSR
};

mod mseccfg {
    /// S-mode may read the seed CSR (Zkr).
    pub(super) const SSEED: u64 = 1 << 9;
}

/// A hart's CSRs when an OS starts on it: machine-mode CSRs that enable the hart's features for the
/// OS, and S-mode CSRs with defined initial values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `medeleg`.
    pub medeleg: u64,
    /// `mideleg`.
    pub mideleg: u64,
    /// `mie`: machine mode's own interrupts.
    pub mie: u64,
    /// `mcounteren` and `scounteren`.
    pub counters: u64,
    /// `menvcfg`; a hart may lack it.
    pub menvcfg: u64,
    /// `mstateen0`, with Smstateen.
    pub mstateen0: Option<u64>,
    /// Bits to set in `mseccfg`, if any. They let the OS read the seed CSR, so that it has entropy
    /// that does not come from the firmware.
    pub mseccfg: Option<u64>,
    /// `stimecmp`, with Sstc: no timer is set.
    pub stimecmp: Option<u64>,
}

/// Traps that machine mode keeps on a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The interrupts that machine mode itself serves. It enables no others for itself.
    pub interrupts: u64,
    /// The hart's access faults, if registers are mediated.
    pub access_faults: bool,
    /// Illegal instructions, if the hart lacks a counter, whose reads machine mode then emulates.
    pub illegal_instructions: bool,
    /// External interrupts of S-mode, which are then off: the hart's domain has no interrupt
    /// controller, but another one's may name the hart.
    pub external_interrupts: bool,
}

impl Environment {
    /// For a hart with these extensions, without the traps that machine mode keeps.
    #[must_use]
    pub fn of(extensions: &Extensions, kept: Kept) -> Self {
        let bit = |there: bool, bits: u64| if there { bits } else { 0 };
        let cache_blocks = extensions.zicbom || extensions.zicboz;
        Environment {
            medeleg: DELEGATED_EXCEPTIONS
                & !bit(kept.access_faults, MEDIATED_EXCEPTIONS)
                & !bit(kept.illegal_instructions, ILLEGAL_INSTRUCTION),
            mideleg: OF_THE_OS & !bit(kept.external_interrupts, SEI),
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
