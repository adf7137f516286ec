//! Long work in machine mode, and the short work within it that is not to be interrupted.
//!
//! A hart enters machine mode with its interrupts off. What may take more than a
//! millisecond (saving, loading, a slow console, waiting for other harts) runs with them
//! on, so that what is urgent is noticed at once.

use poorwill_hart::interrupt;

use crate::csr::{self, status};
use crate::irqs_off;

/// Runs `work` with machine mode's interrupts on, of which it takes the OS's timer, where
/// machine mode keeps it, and those `by` which else it is to be interrupted, as `mie` has
/// them.
///
/// # Safety
///
/// The hart's trap vector serves these interrupts within machine mode, and `work` holds
/// nothing that they need.
#[track_caller]
pub unsafe fn interruptible<R>(by: u64, work: impl FnOnce() -> R) -> R {
    let enabled = csr::read::<{ csr::MIE }>();
    // Those that are delegated are not taken in machine mode, and stay for a capture within
    // `work` to find: a guest's among them, which are always delegated.
    let kept = csr::read::<{ csr::MIDELEG }>() | interrupt::MTI;
    let was_on = csr::read::<{ csr::MSTATUS }>() & status::MIE;
    // SAFETY: as the caller says; those of the OS are not taken in machine mode.
    unsafe {
        csr::write::<{ csr::MIE }>(enabled & kept | by);
        csr::set::<{ csr::MSTATUS }>(status::MIE);
        irqs_off::on();
    }
    let result = work();
    // SAFETY: as they were; the OS's timer may have rung meanwhile, and is off then.
    unsafe {
        csr::clear::<{ csr::MSTATUS }>(status::MIE);
        let rung = enabled & !csr::read::<{ csr::MIE }>() & interrupt::MTI;
        csr::write::<{ csr::MIE }>(enabled & !rung);
        csr::set::<{ csr::MSTATUS }>(was_on);
    }
    match was_on {
        0 => irqs_off::begin(),
        _ => irqs_off::on(),
    }
    result
}

/// Runs `work`, which is short or waits by `wfi`, with machine mode's interrupts off.
#[track_caller]
pub fn uninterrupted<R>(work: impl FnOnce() -> R) -> R {
    let was_on = csr::read::<{ csr::MSTATUS }>() & status::MIE;
    // SAFETY: what is pending waits.
    unsafe { csr::clear::<{ csr::MSTATUS }>(status::MIE) };
    if was_on != 0 {
        irqs_off::begin();
    }
    let result = work();
    // SAFETY: as it was.
    unsafe { csr::set::<{ csr::MSTATUS }>(was_on) };
    irqs_off::on();
    result
}
