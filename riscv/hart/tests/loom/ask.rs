//! A job that a resting hart does for another: it is done once and whole, or withdrawn in time.

use loom::sync::Arc;
use loom::{cell::UnsafeCell, thread};

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::ask::AskCell;

            /// The job adds to what the asking hart has written. The asking hart looks once, gives
            /// the job up if it can, and then uses its memory again.
            pub(crate) fn a_job() {
                loom::model(|| {
                    let shared = Arc::new((AskCell::new(), UnsafeCell::new(0)));
                    let other = shared.clone();
                    let other = thread::spawn(move || {
                        let (cell, lent) = &*other;
                        if cell.take() {
                            // SAFETY: loom fails where the other hart uses it.
                            lent.with_mut(|lent| unsafe { *lent += 1 });
                            cell.done();
                            assert!(!cell.take(), "a job is done once");
                        }
                    });
                    let (cell, lent) = &*shared;
                    // SAFETY: as above.
                    lent.with_mut(|lent| unsafe { *lent = 10 });
                    assert!(cell.ask());
                    let mut is_done = cell.is_done();
                    if !is_done && !cell.withdraw() {
                        while !cell.is_done() {
                            thread::yield_now();
                        }
                        is_done = true;
                    }
                    // SAFETY: as above.
                    lent.with_mut(|lent| unsafe {
                        assert_eq!(*lent, 10 + u32::from(is_done));
                        *lent += 1;
                    });
                    other.join().unwrap();
                    assert!(cell.ask(), "the next job may be asked for");
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn a_job_is_done_once_or_withdrawn() {
    whole::a_job();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn each_step_must_acquire() {
    without_acquire::a_job();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn each_step_must_release() {
    without_release::a_job();
}
