//! Switches machine mode's interrupts on for long work, and off for short work within it.
//!
//! A hart enters machine mode with its interrupts off. Work that may take more than a millisecond
//! (saving, loading, a slow console, waits for harts) runs with them on. Urgent interrupts are then
//! noticed at once.

use poorwill_hart::interrupt;

use crate::csr::{self, status};
use crate::irqs_off;

/// Runs `work` with two kinds of machine mode's interrupts on: the OS's timer, if machine mode
/// keeps it, and the bits of `mie` in `by`.
///
/// # Safety
///
/// The hart's trap vector serves these interrupts within machine mode, and their handlers need
/// nothing that `work` holds, such as a lock.
#[track_caller]
pub unsafe fn interruptible<R>(by: u64, work: impl FnOnce() -> R) -> R {
    let enabled = csr::read::<{ csr::MIE }>();
    // Machine mode does not take delegated interrupts, the guests' included. They stay enabled,
    // because a capture within `work` saves the OS's `mie`.
    let kept = csr::read::<{ csr::MIDELEG }>() | interrupt::MTI;
    let was_on = csr::read::<{ csr::MSTATUS }>() & status::MIE;
    // SAFETY: by the caller's contract. Machine mode does not take the OS's interrupts.
    unsafe {
        csr::write::<{ csr::MIE }>(enabled & kept | by);
        csr::set::<{ csr::MSTATUS }>(status::MIE);
        irqs_off::on();
    }
    let result = work();
    // SAFETY: restores the old values. The OS's timer interrupt stays disabled if it came during
    // `work`.
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

/// Runs `work` with machine mode's interrupts off. `work` must be short, or wait by `wfi`.
#[track_caller]
pub fn uninterrupted<R>(work: impl FnOnce() -> R) -> R {
    let was_on = csr::read::<{ csr::MSTATUS }>() & status::MIE;
    // SAFETY: interrupts stay pending while they are off.
    unsafe { csr::clear::<{ csr::MSTATUS }>(status::MIE) };
    if was_on != 0 {
        irqs_off::begin();
    }
    let result = work();
    // SAFETY: restores the old value.
    unsafe { csr::set::<{ csr::MSTATUS }>(was_on) };
    irqs_off::on();
    result
}
