//! Starting a hart: one of those who start it succeeds, and the hart does what that
//! one has said.

use loom::sync::Arc;
use loom::thread;
use poorwill_memory::EntryPoint;

macro_rules! explorations {
    ($variant:ident) => {
        pub(super) mod $variant {
            use super::*;
            use crate::$variant::hsm::{HsmCell, HsmState, Task};

            fn task(number: u64) -> Task {
                Task::Start(EntryPoint {
                    address: number,
                    argument: number,
                })
            }

            /// A hart that has run is started once more, by either of two others,
            /// and looks meanwhile.
            pub(crate) fn a_start() {
                loom::model(|| {
                    let cell = Arc::new(HsmCell::new());
                    let starters = [1, 2].map(|number| {
                        let cell = cell.clone();
                        thread::spawn(move || cell.remote().start(task(number)).is_ok())
                    });
                    let local = cell.local();
                    let early = local.starting().map(|starting| {
                        let found = starting.task();
                        starting.started().unwrap();
                        found
                    });
                    let started = starters.map(|starter| starter.join().unwrap());
                    assert_ne!(started[0], started[1], "one of them starts it");
                    let by = if started[0] { 1 } else { 2 };
                    let found = early.unwrap_or_else(|| {
                        assert_eq!(cell.remote().state(), HsmState::StartPending);
                        local.starting().expect("it has been started").task()
                    });
                    assert_eq!(found, task(by), "not half of it");
                });
            }
        }
    };
}

explorations!(whole);
explorations!(without_acquire);
explorations!(without_release);

#[test]
fn a_start_brings_its_task_whole() {
    whole::a_start();
}

#[test]
#[should_panic(expected = "not half of it")]
fn without_acquire_the_task_may_be_half() {
    without_acquire::a_start();
}

#[test]
#[should_panic(expected = "not half of it")]
fn without_release_the_task_may_be_half() {
    without_release::a_start();
}
