//! The start of the machine, offered by a hart that cannot run the OS to one that can.
//!
//! One word holds it: no hart, the ID of the hart that it is offered to, or that it is
//! taken. A hart that waits in entry.S takes what is offered to it, and goes on when the word
//! says again that there is no hart: then the other one needs its stack no more.

use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// No hart: nothing is offered, or the hart that offered has left.
pub(super) const NO_HART: i64 = -1;
/// The hart to which the start was offered has taken it.
pub(super) const TAKEN: i64 = -2;

/// The offer, as entry.S reads it.
#[repr(C)]
pub(super) struct Offer {
    hart: AtomicI64,
    tree: AtomicUsize,
    information: AtomicUsize,
}

/// Not in `.bss`, which the hart that takes it clears.
#[unsafe(link_section = ".data")]
pub(super) static OFFER: Offer = Offer {
    hart: AtomicI64::new(NO_HART),
    tree: AtomicUsize::new(0),
    information: AtomicUsize::new(0),
};

/// Offers the start to a hart, with what the previous stage passed. The hart may be in `wfi`.
pub(crate) fn make(hart: u64, tree: usize, information: usize) {
    OFFER.tree.store(tree, Ordering::Relaxed);
    OFFER.information.store(information, Ordering::Relaxed);
    OFFER.hart.store(hart.cast_signed(), Ordering::Release);
}

/// Whether the hart has taken it.
pub(crate) fn is_taken() -> bool {
    OFFER.hart.load(Ordering::Acquire) == TAKEN
}

/// Takes the offer back; says whether the hart had not taken it.
pub(crate) fn withdraw(hart: u64) -> bool {
    let (order, hart) = (Ordering::AcqRel, hart.cast_signed());
    (OFFER.hart)
        .compare_exchange(hart, NO_HART, order, Ordering::Acquire)
        .is_ok()
}

/// Leaves the machine to the hart that has taken its start, and parks the calling one.
pub(crate) fn leave() -> ! {
    // SAFETY: what is on the deep stack is given up, and this hart does nothing any more.
    unsafe { super::leave_machine() }
}
