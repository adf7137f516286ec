//! A domain parks, and wakes by itself or with the machine; the last ones end.

use loom::sync::Arc;
use loom::{cell::UnsafeCell, thread};
use poorwill_memory::EntryPoint;

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::domain_state::{DomainCell, DomainState, WrongDomainState};
            use crate::$variant::hsm::{HsmCell, HsmState, Task};
            use crate::$variant::set::{DomainSet, Member, Remaining};

            /// A domain with memory. The hart that has stopped the domain may use it.
            #[derive(Default)]
            struct Domain {
                cell: DomainCell,
                memory: UnsafeCell<u32>,
            }

            impl Member for Domain {
                fn cell(&self) -> &DomainCell {
                    &self.cell
                }
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
                        parked.cell.begin_park().unwrap();
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
                    let set = DomainSet::new(core::slice::from_ref(&*domain));
                    let sleeps = set.fall_asleep().is_ok();
                    if sleeps {
                        domain.use_memory();
                        assert!(set.wake_next(0).is_some());
                    }
                    let has_won = hart.join().unwrap();
                    assert!(sleeps != has_won, "one of them wins");
                    assert_eq!(domain.cell.state(), DomainState::Running);
                });
            }

            /// The machine's sleep is refused, as another domain runs.
            pub(crate) fn a_refusal() {
                loom::model(|| {
                    let domains = Arc::new([Domain::default(), Domain::default()]);
                    let cell = &domains[0].cell;
                    cell.run().unwrap();
                    cell.begin_park().unwrap();
                    cell.park().unwrap();
                    let parked = domains.clone();
                    let hart = thread::spawn(move || {
                        // The master rings the hart after its refusal; here it looks again.
                        while parked[0].cell.unpark().is_err() {
                            thread::yield_now();
                        }
                    });
                    assert!(DomainSet::new(&domains[..]).fall_asleep().is_err());
                    hart.join().unwrap();
                    assert_eq!(domains[0].cell.state(), DomainState::Running);
                });
            }

            /// One hart parks the domain, while another starts a third one and stops.
            pub(crate) fn a_start() {
                loom::model(|| {
                    let domain = Arc::new(Domain::default());
                    domain.cell.run().unwrap();
                    let harts = Arc::new([HsmCell::new(), HsmCell::new()]);
                    let task = Task::Start(EntryPoint::default());
                    harts[0].remote().start(task).unwrap();
                    harts[0].local().starting().unwrap().started().unwrap();
                    let (shared, of_os) = (domain.clone(), harts.clone());
                    let os = thread::spawn(move || {
                        let may_start = || shared.cell.may_start_hart();
                        let started = of_os[1].remote().start_if(task, may_start).is_ok();
                        of_os[0].local().stop().unwrap();
                        of_os[0].local().stopped().unwrap();
                        if started {
                            // The third hart, which this thread stands for, too.
                            shared.use_memory();
                        }
                    });
                    domain.cell.begin_park().unwrap();
                    // The third hart first: the other may start it after this look, and stop.
                    let is_stopped = |hart: &HsmCell| hart.remote().state() == HsmState::Stopped;
                    if is_stopped(&harts[1]) && is_stopped(&harts[0]) {
                        domain.cell.park().unwrap();
                        domain.use_memory();
                    } else {
                        domain.cell.stay_running().unwrap();
                    }
                    os.join().unwrap();
                });
            }

            /// A hart ends the domain, while another parks it.
            pub(crate) fn an_end() {
                loom::model(|| {
                    let domain = Arc::new(Domain::default());
                    domain.cell.run().unwrap();
                    let ended = domain.clone();
                    let hart = thread::spawn(move || ended.cell.end().unwrap());
                    let ended = Err(WrongDomainState(DomainState::Ended));
                    match domain.cell.begin_park() {
                        // The other hart runs, so the domain does not park.
                        Ok(()) => {
                            let left = domain.cell.stay_running();
                            assert!(left.is_ok() || left == ended);
                        }
                        refused => assert_eq!(refused, ended),
                    }
                    hart.join().unwrap();
                    assert_eq!(domain.cell.state(), DomainState::Ended);
                });
            }

            /// Two masters put the machine to sleep.
            pub(crate) fn two_masters() {
                loom::model(|| {
                    let domains = Arc::new([Domain::default(), Domain::default()]);
                    for domain in &*domains {
                        domain.cell.run().unwrap();
                        domain.cell.begin_park().unwrap();
                        domain.cell.park().unwrap();
                    }
                    let shared = domains.clone();
                    // A refused master ends its own sleep, unless the other has won.
                    let ask = |domains: &[Domain; 2], own: usize| {
                        let slept = DomainSet::new(&domains[..]).fall_asleep().is_ok();
                        slept || domains[own].cell.unpark().is_err()
                    };
                    let other = thread::spawn(move || ask(&shared, 1));
                    let sleep = [ask(&domains, 0), other.join().unwrap()];
                    for (domain, sleeps) in domains.iter().zip(sleep) {
                        let state = domain.cell.state();
                        let expected = match sleeps {
                            true => DomainState::Asleep,
                            false => DomainState::Running,
                        };
                        assert_eq!(state, expected);
                    }
                });
            }

            /// The last two domains end.
            pub(crate) fn the_last_ends() {
                loom::model(|| {
                    let domains = Arc::new([Domain::default(), Domain::default()]);
                    for domain in &*domains {
                        domain.cell.run().unwrap();
                    }
                    let shared = domains.clone();
                    let end = |domains: &[Domain; 2], index: usize| {
                        let set = DomainSet::new(&domains[..]);
                        set.end(&domains[index]).unwrap()
                    };
                    let other = thread::spawn(move || end(&shared, 1));
                    let ends = [end(&domains, 0), other.join().unwrap()];
                    assert!(ends.contains(&Remaining::None), "one of them is the last");
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);
explorations!(without_fence);

#[test]
fn a_parked_domain_starts_no_hart() {
    whole::a_start();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_start_and_a_park_must_see_each_other() {
    without_fence::a_start();
}

#[test]
fn a_domain_that_parks_may_end() {
    whole::an_end();
}

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

#[test]
fn two_masters_agree() {
    whole::two_masters();
}

#[test]
fn the_last_domain_that_ends_knows_it() {
    whole::the_last_ends();
}

#[test]
#[should_panic(expected = "one of them is the last")]
fn ends_must_see_each_other() {
    without_fence::the_last_ends();
}
