//! In builds for tests: the weak hart gives the OS back every 97 instructions, and gets it again
//! soon after. So a hand-back comes between any two instructions, and the OS's own hart continues
//! with what the weak hart has left.

#[cfg(feature = "hand-back")]
use poorwill_translate::End;

use super::lent::Lent;
#[cfg(feature = "hand-back")]
use crate::hart;
use crate::hart::ThisHart;
#[cfg(feature = "hand-back")]
use crate::platform::platform;

/// Instructions of a lending. No loop of a kernel has a multiple of this prime number.
pub(super) const INSTRUCTIONS: u64 = if cfg!(feature = "hand-back") {
    97
} else {
    u64::MAX
};

/// Time for the OS's own hart. Machine mode's way to the OS takes a part of it.
#[cfg(feature = "hand-back")]
const OWN_NS: u64 = 2000;

/// Hand-backs of a half. A kernel without programs has no other end.
#[cfg(feature = "hand-back")]
const MOST: u64 = 100_000;

/// Returns whether the weak hart goes on with the half after it has given the hart back.
#[cfg(feature = "hand-back")]
pub(super) fn goes_on(lent: &mut Lent) -> bool {
    // Without Sstc the machine timer is the OS's.
    let has_timer = hart::all()[lent.place].description.extensions.sstc;
    if !has_timer || !matches!(lent.end, End::Call | End::Turn) {
        return false;
    }
    lent.half.hand_backs += 1;
    lent.half.hand_backs < MOST
}

/// Returns false: each hand-back ends the half.
#[cfg(not(feature = "hand-back"))]
pub(super) fn goes_on(_lent: &mut Lent) -> bool {
    false
}

/// Lets the hart, whose half goes on, run the OS for a moment and then trap into machine mode. One
/// that serves a call lends again at its end.
#[cfg(feature = "hand-back")]
pub(super) fn call_again(hart: ThisHart, lent: &Lent) {
    if lent.half.is_open() && lent.end == End::Turn {
        let time = &platform().time;
        let due = time.ticks() + time.ticks_in(OWN_NS);
        hart.timer().set_machine_timer(due);
    }
}

/// Does nothing: no half goes on.
#[cfg(not(feature = "hand-back"))]
pub(super) fn call_again(_hart: ThisHart, _lent: &Lent) {}
