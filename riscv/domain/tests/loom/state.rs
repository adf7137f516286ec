//! A domain parks, and wakes by itself or with the machine.

use loom::sync::Arc;
use loom::{cell::UnsafeCell, thread};

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::state::{DomainCell, DomainState, sleep_all};

            /// A domain with memory. The hart that has stopped the domain may use it.
            #[derive(Default)]
            struct Domain {
                cell: DomainCell,
                memory: UnsafeCell<u32>,
            }

            impl Domain {
                fn use_memory(&self) {
                    // SAFETY: loom fails if another hart uses it at the same time.
                    self.memory.with_mut(|memory| unsafe { *memory += 1 });
                }
            }

            /// The domain's hart has a wake event when the master puts the machine to sleep.
            pub(crate) fn a_race() {
                loom::model(|| {
                    let domain = Arc::new(Domain::default());
                    domain.cell.run().unwrap();
                    let parked = domain.clone();
                    let hart = thread::spawn(move || {
                        parked.use_memory();
                        parked.cell.park().unwrap();
                        let has_won = parked.cell.unpark().is_ok();
                        while !has_won && parked.cell.state() != DomainState::Waking {
                            thread::yield_now();
                        }
                        parked.use_memory();
                        if !has_won {
                            parked.cell.run().unwrap();
                        }
                        has_won
                    });
                    let sleeps = sleep_all([&domain.cell].into_iter()).is_ok();
                    if sleeps {
                        domain.use_memory();
                        domain.cell.wake().unwrap();
                    }
                    let has_won = hart.join().unwrap();
                    assert!(sleeps != has_won, "one of them wins");
                    assert_eq!(domain.cell.state(), DomainState::Running);
                });
            }

            /// The machine's sleep is refused, as another domain runs.
            pub(crate) fn a_refusal() {
                loom::model(|| {
                    let domain = Arc::new(Domain::default());
                    domain.cell.run().unwrap();
                    domain.cell.park().unwrap();
                    let parked = domain.clone();
                    let hart = thread::spawn(move || {
                        // The master rings the hart after its refusal; here it looks again.
                        while parked.cell.unpark().is_err() {
                            thread::yield_now();
                        }
                    });
                    let running = DomainCell::new();
                    let refused = sleep_all([&domain.cell, &running].into_iter());
                    assert!(refused.is_err());
                    hart.join().unwrap();
                    assert_eq!(domain.cell.state(), DomainState::Running);
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn a_wake_event_or_the_master_wins() {
    whole::a_race();
}

#[test]
fn a_refused_sleep_leaves_the_domain_parked() {
    whole::a_refusal();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_transition_must_acquire() {
    without_acquire::a_race();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_transition_must_release() {
    without_release::a_race();
}
