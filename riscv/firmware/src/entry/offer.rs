//! An offer of the machine's start, from a hart that may not boot the machine to one that may.
//!
//! One word holds the offer's state: no hart, the ID of the hart with the offer, or taken. A hart
//! that waits in entry.S takes its offer. It continues when the word says "no hart" again, because
//! the offering hart then no longer uses its stack.

use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

unsafe extern "C" {
    fn leave_machine(hart_id: u64) -> !;
}

/// No hart: there is no offer, or the offering hart has left.
pub(super) const NO_HART: i64 = -1;
/// The hart with the offer has taken it.
pub(super) const TAKEN: i64 = -2;

/// The offer, in entry.S's layout.
#[repr(C)]
pub(super) struct Offer {
    hart: AtomicI64,
    tree: AtomicUsize,
    information: AtomicUsize,
}

/// Not in `.bss`, which the taking hart clears.
#[unsafe(link_section = ".data")]
pub(super) static OFFER: Offer = Offer {
    hart: AtomicI64::new(NO_HART),
    tree: AtomicUsize::new(0),
    information: AtomicUsize::new(0),
};

/// Offers the start to a hart, with the previous stage's addresses. The hart may be in `wfi`.
pub(crate) fn make(hart: u64, tree: usize, information: usize) {
    OFFER.tree.store(tree, Ordering::Relaxed);
    OFFER.information.store(information, Ordering::Relaxed);
    OFFER.hart.store(hart.cast_signed(), Ordering::Release);
}

pub(crate) fn is_taken() -> bool {
    OFFER.hart.load(Ordering::Acquire) == TAKEN
}

/// Withdraws the offer; returns false if the hart has taken it.
pub(crate) fn withdraw(hart: u64) -> bool {
    let (order, hart) = (Ordering::AcqRel, hart.cast_signed());
    (OFFER.hart)
        .compare_exchange(hart, NO_HART, order, Ordering::Acquire)
        .is_ok()
}

/// Leaves the machine to the hart that has taken the start. The calling hart, `own`, waits as if it
/// had arrived later.
pub(crate) fn leave(own: u64) -> ! {
    // SAFETY: the deep stack's contents are not needed any more.
    unsafe { leave_machine(own) }
}
