//! A call, and what its handlers share.

use poorwill_arch::Time;
use poorwill_domain::{ClaimError, HartSelection};
use sbi_spec::binary::SbiRet;

use crate::domain::LiveDomain;
use crate::hart::{self, Hart, ThisHart};

/// Bytes of ECALL, which has no compressed form.
pub(crate) const CALL_BYTES: usize = 4;

/// The caller, and the resources for its call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) hart: ThisHart,
    /// Its domain, which checks the caller's claims.
    pub(crate) domain: &'static LiveDomain,
    /// The clock for waits.
    pub(crate) time: &'static Time,
}

/// A call with its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) caller: Caller,
    pub(super) extension: usize,
    pub(super) function: usize,
    pub(super) arguments: [usize; 6],
}

/// The error code for a refused claim (SBI 3.0: each function's table of errors).
pub(super) fn refusal(error: ClaimError) -> SbiRet {
    match error {
        ClaimError::Code(_) | ClaimError::Fence { .. } => SbiRet::invalid_address(),
        ClaimError::Bytes { .. } | ClaimError::Hart(_) | ClaimError::Harts { .. } => {
            SbiRet::invalid_param()
        }
        ClaimError::Request(_) => SbiRet::denied(),
    }
}

pub(super) fn harts(selection: HartSelection<'_>) -> impl Iterator<Item = &'static Hart> {
    hart::all()
        .iter()
        .filter(move |hart| selection.contains(hart.id()))
}
