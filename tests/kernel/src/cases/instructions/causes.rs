//! Traps that a run must have seen, and reasons for the others.

use crate::arch::{guard, os_csr, sandbox::Mode};

/// What hart this is, as far as traps go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hart {
    pub(super) has_hypervisor: bool,
    /// A program of ours can be made to land on landing pads alone.
    pub(super) has_landing_pads: bool,
}

/// `senvcfg.LPE`, and `henvcfg.LPE`.
pub(super) const LANDING_PADS: usize = 1 << 2;

impl Hart {
    /// The one that runs this.
    pub(super) fn this() -> Self {
        Hart {
            has_hypervisor: guard::read_hip().is_some(),
            has_landing_pads: os_csr::write(os_csr::SENVCFG, LANDING_PADS).is_ok()
                && os_csr::read(os_csr::SENVCFG) == Ok(LANDING_PADS),
        }
    }

    /// The modes that it has, but for machine mode.
    pub(super) fn modes(self) -> &'static [Mode] {
        match self.has_hypervisor {
            true => &[Mode::U, Mode::S, Mode::Vs, Mode::Vu],
            false => &[Mode::U, Mode::S],
        }
    }

    /// Why no random instruction can end with this exception; `None` where some must.
    pub(super) fn out_of_reach(self, cause: usize) -> Option<&'static str> {
        match cause {
            0 => Some("jumps may go to any half-word"),
            6 => Some("QEMU's atomic instructions load first where harts share a thread"),
            9 => Some("the calls' fuzzer makes S-mode's calls"),
            11 => Some("it is machine mode's own call"),
            16 => Some("machine mode leaves menvcfg.DTE clear"),
            18 if !self.has_landing_pads => Some("the hart has no landing pads"),
            19 => Some("QEMU's memory has no errors"),
            10 | 20..=23 if !self.has_hypervisor => Some("the hart has no guests"),
            14 | 17 | 24..64 => Some("the cause is reserved or a vendor's"),
            _ => None,
        }
    }
}
