//! Requests: seen with what they are about, and never left lying.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::{cell::UnsafeCell, thread};

/// An interrupt, ordered as the trait demands: `fence w, o` before the device is
/// written, `fence o, rw` behind it.
#[derive(Default)]
pub(crate) struct Interrupt(AtomicBool);

impl Interrupt {
    fn send(&self) {
        fence(Ordering::SeqCst);
        self.0.store(true, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn is_pending(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// One that a device with its own ordering would need; the mailbox must order what
/// it passes on by itself.
struct Silent;

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::mailbox::{IpiDevice, Mailbox, Request};

            impl IpiDevice for Interrupt {
                fn send(&self) {
                    self.send();
                }

                fn clear(&self) {
                    self.clear();
                }
            }

            impl IpiDevice for Silent {
                fn send(&self) {}

                fn clear(&self) {}
            }

            struct Hart {
                mailbox: Mailbox,
                interrupt: Interrupt,
                served: AtomicUsize,
            }

            /// Two harts ask for different things, while the third handles one
            /// interrupt. Afterwards each request has been served, or the interrupt
            /// is pending; `receive` is how the hart takes requests.
            pub(crate) fn nothing_is_left_lying(receive: fn(&Mailbox, &Interrupt) -> usize) {
                loom::model(move || {
                    let hart = Arc::new(Hart {
                        mailbox: Mailbox::new(),
                        interrupt: Interrupt::default(),
                        served: AtomicUsize::new(0),
                    });
                    let send = |request| {
                        let hart = hart.clone();
                        thread::spawn(move || hart.mailbox.send(request, &hart.interrupt))
                    };
                    let senders = [send(Request::SupervisorIpi), send(Request::Job)];
                    let served = receive(&hart.mailbox, &hart.interrupt);
                    hart.served.fetch_add(served, Ordering::Relaxed);
                    for sender in senders {
                        sender.join().unwrap();
                    }
                    let served = hart.served.load(Ordering::Relaxed);
                    assert!(served == 2 || hart.interrupt.is_pending());
                });
            }

            /// Takes requests as the firmware does.
            pub(crate) fn clear_then_look(mailbox: &Mailbox, interrupt: &Interrupt) -> usize {
                let found = mailbox.receive(interrupt);
                count(
                    found.contains(Request::SupervisorIpi),
                    found.contains(Request::Job),
                )
            }

            /// Looks first, and clears the interrupt then.
            pub(crate) fn look_then_clear(mailbox: &Mailbox, interrupt: &Interrupt) -> usize {
                let found = mailbox.take();
                interrupt.clear();
                count(
                    found.contains(Request::SupervisorIpi),
                    found.contains(Request::Job),
                )
            }

            fn count(ipi: bool, job: bool) -> usize {
                usize::from(ipi) + usize::from(job)
            }

            /// One hart asks for two fences, one after the other, and another serves
            /// them, whose description is in a place that both use; a third disturbs
            /// them with an IPI.
            pub(crate) fn a_fence_is_seen_and_done_with() {
                loom::model(|| {
                    let mailbox = Arc::new(Mailbox::new());
                    let described = Arc::new(UnsafeCell::new(0));
                    let serve = {
                        let (mailbox, described) = (mailbox.clone(), described.clone());
                        move || {
                            if mailbox.receive(&Silent).contains(Request::Fence) {
                                described.with(|fence| {
                                    // SAFETY: loom fails where the other hart writes
                                    // at the same time.
                                    assert_ne!(unsafe { *fence }, 0);
                                });
                                mailbox.complete(Request::Fence);
                            }
                        }
                    };
                    let other = thread::spawn(serve);
                    let ipi = {
                        let mailbox = mailbox.clone();
                        thread::spawn(move || mailbox.send(Request::SupervisorIpi, &Silent))
                    };
                    for number in [1, 2] {
                        // SAFETY: as above.
                        described.with_mut(|fence| unsafe { *fence = number });
                        mailbox.send(Request::Fence, &Silent);
                        if mailbox.is_posted(Request::Fence) {
                            // Not served yet: the hart waits, and asks for no other.
                            break;
                        }
                    }
                    other.join().unwrap();
                    ipi.join().unwrap();
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn no_request_is_left_lying() {
    whole::nothing_is_left_lying(whole::clear_then_look);
}

#[test]
#[should_panic(expected = "is_pending")]
fn clearing_the_interrupt_behind_the_look_loses_requests() {
    whole::nothing_is_left_lying(whole::look_then_clear);
}

#[test]
fn a_fence_is_seen_and_done_with() {
    whole::a_fence_is_seen_and_done_with();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_acquire_a_fence_may_be_another() {
    without_acquire::a_fence_is_seen_and_done_with();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_a_fence_may_be_another() {
    without_release::a_fence_is_seen_and_done_with();
}
