//! In builds for tests: the weak hart gives the OS back every 97 instructions, and gets it again
//! soon after. So a hand-back comes between any two instructions, and the OS's own hart continues
//! with what the weak hart has left.

#[cfg(feature = "hand-back")]
use poorwill_translate::End;

use super::lent::Lent;
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

/// Lets the hart run the OS for a moment, and then trap into machine mode. Returns false if the half
/// ends.
#[cfg(feature = "hand-back")]
pub(super) fn call_again(hart: ThisHart, lent: &mut Lent) -> bool {
    match lent.end {
        // Without Sstc the machine timer is the OS's.
        _ if !hart.description.extensions.sstc => return false,
        // The hart serves the call, and lends again at its end.
        End::Call => {}
        End::Turn => {
            let time = &platform().time;
            let due = time.ticks() + time.ticks_in(OWN_NS);
            hart.timer().set_machine_timer(due);
        }
        End::User | End::Sleep | End::Unknown | End::Late | End::Absent => return false,
    }
    lent.half.hand_backs += 1;
    lent.half.hand_backs < MOST
}

/// Returns false: each hand-back ends the half.
#[cfg(not(feature = "hand-back"))]
pub(super) fn call_again(_hart: ThisHart, _lent: &mut Lent) -> bool {
    false
}
