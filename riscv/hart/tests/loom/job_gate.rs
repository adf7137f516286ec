//! The job gate: nobody enters once it is closed, nobody is inside once it is empty,
//! and each worker does a round once.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::{cell::UnsafeCell, thread};

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::job_gate::{JobGate, Worker};

            struct Shared {
                gate: JobGate,
                /// What the job is; gone when the round is over.
                job: UnsafeCell<usize>,
                done: [UnsafeCell<usize>; 2],
                runs: AtomicUsize,
            }

            fn work(shared: &Shared, place: usize, worker: &mut Worker) {
                if let Some(inside) = worker.enter(&shared.gate) {
                    // SAFETY: loom fails where another hart writes at the same time.
                    let job = shared.job.with(|job| unsafe { *job });
                    assert_ne!(job, 0, "the round is over");
                    // SAFETY: as above.
                    shared.done[place].with_mut(|done| unsafe { *done += 1 });
                    shared.runs.fetch_add(1, Ordering::Relaxed);
                    drop(inside);
                }
            }

            /// A coordinator opens one round for `workers`, each of which looks
            /// `times` times.
            pub(crate) fn a_round(workers: usize, times: usize) {
                let mut model = loom::model::Builder::new();
                // Of two workers every interleaving with up to so many preemptions:
                // all of them take hours.
                model.preemption_bound = (workers > 1).then_some(3);
                model.check(move || {
                    let shared = Arc::new(Shared {
                        gate: JobGate::new(),
                        job: UnsafeCell::new(0),
                        done: [UnsafeCell::new(0), UnsafeCell::new(0)],
                        runs: AtomicUsize::new(0),
                    });
                    let worker = |place| {
                        let shared = shared.clone();
                        thread::spawn(move || {
                            let mut worker = Worker::new();
                            for _ in 0..times {
                                work(&shared, place, &mut worker);
                            }
                        })
                    };
                    let threads: Vec<_> = (0..workers).map(worker).collect();
                    // SAFETY: loom fails where a worker reads at the same time.
                    shared.job.with_mut(|job| unsafe { *job = 1 });
                    shared.gate.open().unwrap();
                    assert!(shared.gate.open().is_err(), "rounds are not nested");
                    shared.gate.close();
                    while shared.gate.inside() != 0 {
                        thread::yield_now();
                    }
                    // SAFETY: the round is over, or loom fails.
                    shared.job.with_mut(|job| unsafe { *job = 0 });
                    let runs = shared.runs.load(Ordering::Relaxed);
                    let done = (shared.done.iter())
                        // SAFETY: as above.
                        .map(|done| done.with(|done| unsafe { *done }));
                    assert_eq!(done.sum::<usize>(), runs);
                    for thread in threads {
                        thread.join().unwrap();
                    }
                    assert_eq!(shared.runs.load(Ordering::Relaxed), runs, "it is closed");
                    assert!(runs <= workers, "a worker does a round once");
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn a_round_ends_when_the_last_has_left() {
    whole::a_round(2, 1);
}

#[test]
fn a_worker_does_a_round_once() {
    whole::a_round(1, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_acquire_a_worker_may_miss_the_job() {
    without_acquire::a_round(1, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_the_coordinator_may_miss_the_work() {
    without_release::a_round(1, 1);
}
