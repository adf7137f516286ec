//! Harts that leave their OS at once: what one has sent before it arrived is seen by the others when
//! they give their states, and the caller uses these after that.

use loom::sync::Arc;
use loom::{cell::UnsafeCell, thread};

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::gathering::{Arrived, Gathering};

            const CALLED: usize = 1;

            /// The called hart interrupts the caller, leaves its OS and gives its state. If
            /// `may_call_off`, the caller may lose its patience first.
            pub(crate) fn a_gathering(may_call_off: bool) {
                loom::model(move || {
                    let shared =
                        Arc::new((Gathering::new(), UnsafeCell::new(0), UnsafeCell::new(0)));
                    let other = shared.clone();
                    let (cell, sent, state) = &*shared;
                    assert!(cell.call() && !cell.call());
                    let other = thread::spawn(move || {
                        let (cell, sent, state) = &*other;
                        // SAFETY: loom fails where the other hart uses it.
                        sent.with_mut(|sent| unsafe { *sent = 1 });
                        if !cell.is_called() {
                            return;
                        }
                        cell.arrive(CALLED);
                        loop {
                            match cell.next() {
                                Arrived::Waits => thread::yield_now(),
                                Arrived::Continues => break,
                                Arrived::Gives => {
                                    // SAFETY: as above.
                                    state.with_mut(|state| unsafe { *state += 2 });
                                    break;
                                }
                            }
                        }
                        cell.leave(CALLED);
                    });
                    while cell.arrived() == 0 {
                        if may_call_off {
                            cell.end();
                            other.join().unwrap();
                            // SAFETY: as above.
                            state.with(|state| unsafe { assert_eq!(*state, 0) });
                            assert_eq!(cell.arrived(), 0);
                            return;
                        }
                        thread::yield_now();
                    }
                    // SAFETY: as above.
                    sent.with(|sent| unsafe { assert_eq!(*sent, 1) });
                    cell.give();
                    while cell.arrived() != 0 {
                        thread::yield_now();
                    }
                    // SAFETY: as above.
                    state.with(|state| unsafe { assert_eq!(*state, 2) });
                    cell.end();
                    other.join().unwrap();
                    assert!(cell.call(), "the next gathering may begin");
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn all_give_their_states_after_the_last_has_arrived() {
    whole::a_gathering(false);
}

#[test]
fn a_gathering_may_be_called_off() {
    whole::a_gathering(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn each_step_must_acquire() {
    without_acquire::a_gathering(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn each_step_must_release() {
    without_release::a_gathering(false);
}
