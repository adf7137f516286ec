//! The legacy extensions (SBI 3.0, chapter 5), one for each call. Kernels from before SBI 0.2,
//! small kernels and test suites use them. A call returns in a0 alone, and reads its hart mask
//! from a virtual address.

use core::num::NonZeroU64;
use core::ops::RangeInclusive;

use poorwill_arch::{LoadFault, load_as_supervisor};
use poorwill_domain::{Domain, FenceRange, HartSelection};
use sbi_spec::binary::SbiRet;
use sbi_spec::legacy::{
    LEGACY_CLEAR_IPI, LEGACY_CONSOLE_GETCHAR, LEGACY_CONSOLE_PUTCHAR, LEGACY_REMOTE_FENCE_I,
    LEGACY_REMOTE_SFENCE_VMA, LEGACY_REMOTE_SFENCE_VMA_ASID, LEGACY_SEND_IPI, LEGACY_SET_TIMER,
    LEGACY_SHUTDOWN,
};

use super::call::{self, Call};
use super::{console, ipi, reset, rfence, timer};
use crate::domain::fences::Fence;

/// Extension IDs of legacy calls, including reserved ones.
pub(super) const EXTENSIONS: RangeInclusive<usize> = 0..=0x0f;

/// Returns whether the domain may make the call. Shutdown has no error code, so it counts as absent
/// if it cannot work.
pub(super) fn is_available(extension: usize, domain: &Domain) -> bool {
    match extension {
        LEGACY_SHUTDOWN => reset::can_shut_down(domain),
        extension => (LEGACY_SET_TIMER..LEGACY_SHUTDOWN).contains(&extension),
    }
}

/// Serves an available call. Returns the value of a0.
///
/// # Errors
///
/// [`LoadFault`]: the mask cannot be read; the caller takes the fault.
pub(super) fn call(call: Call) -> Result<usize, LoadFault> {
    let [first, start, size, space, ..] = call.arguments;
    let harts = || harts_at(call.caller.domain, first as u64);
    let fence = |space| {
        let harts = harts()?;
        Ok(
            FenceRange::new(start as u64, size as u64).map_or_else(call::refusal, |range| {
                rfence::run(harts, Fence::Translations { range, space }, call.caller)
            }),
        )
    };
    let answer = match call.extension {
        LEGACY_SHUTDOWN => reset::shut_down(call.caller),
        LEGACY_SET_TIMER => timer::set(call.caller, first as u64),
        LEGACY_CONSOLE_PUTCHAR => console::write_byte(first, call.caller.domain),
        LEGACY_CONSOLE_GETCHAR => {
            // -1: no byte has arrived.
            return Ok(console::read_byte(call.caller.domain).map_or(usize::MAX, usize::from));
        }
        LEGACY_CLEAR_IPI => return Ok(call.caller.hart.clear_supervisor_ipi().into()),
        LEGACY_SEND_IPI => ipi::send(harts()?),
        LEGACY_REMOTE_FENCE_I => rfence::run(harts()?, Fence::Instructions, call.caller),
        LEGACY_REMOTE_SFENCE_VMA => fence(None)?,
        LEGACY_REMOTE_SFENCE_VMA_ASID => fence(Some(space as u64))?,
        _ => SbiRet::not_supported(),
    };
    Ok(answer.error)
}

/// The harts of the mask at an address; a null address means all. A mask has a bit for each hart of
/// the machine, which fits one word (see [`MAX_HARTS`]).
///
/// [`MAX_HARTS`]: poorwill_devicetree::MAX_HARTS
fn harts_at(domain: &Domain, address: u64) -> Result<HartSelection<'_>, LoadFault> {
    const _: () = assert!(poorwill_devicetree::MAX_HARTS <= u64::BITS as usize);
    let mask = NonZeroU64::new(address).map(|address| load_as_supervisor(address.get()));
    Ok(domain.legacy_harts(mask.transpose()?))
}
