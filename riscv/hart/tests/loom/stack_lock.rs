//! The lock of a stack: one hart at a time is on it, and finds what the last one left.

use loom::sync::Arc;
use loom::{cell::UnsafeCell, thread};

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::stack_lock::StackLock;

            /// The hart that boots is on the stack, starts another, and leaves, while that
            /// one takes it.
            pub(crate) fn a_handover() {
                loom::model(|| {
                    let shared = Arc::new((StackLock::new(), UnsafeCell::new(0)));
                    let (lock, stack) = &*shared;
                    assert!(lock.try_take(0));
                    let other = shared.clone();
                    let other = thread::spawn(move || {
                        let (lock, stack) = &*other;
                        // Who was never on it leaves nothing.
                        lock.leave(1);
                        while !lock.try_take(1) {
                            thread::yield_now();
                        }
                        // SAFETY: loom fails where the other hart is on it.
                        stack.with_mut(|stack| unsafe { *stack += 1 });
                        lock.leave(1);
                    });
                    // SAFETY: as above.
                    stack.with_mut(|stack| unsafe { *stack += 1 });
                    lock.leave(0);
                    other.join().unwrap();
                    assert!(lock.try_take(0), "it is free");
                    // SAFETY: the other hart has ended.
                    stack.with(|stack| assert_eq!(unsafe { *stack }, 2));
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn one_hart_at_a_time_is_on_the_stack() {
    whole::a_handover();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn taking_must_acquire() {
    without_acquire::a_handover();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn leaving_must_release() {
    without_release::a_handover();
}
