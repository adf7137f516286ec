//! The hart that calls the others of its OS, over models of these.

use std::cell::Cell;

use poorwill_hart::{Arrived, Gathering, NotGathered, Others};

/// Harts that do something at each look of the caller.
struct Model<'a, F: Fn(u64)> {
    running: &'a Cell<u32>,
    rung: &'a Cell<u32>,
    ms: Cell<u64>,
    acts: F,
}

impl<F: Fn(u64)> Others for Model<'_, F> {
    fn running(&self) -> u32 {
        self.running.get()
    }

    fn ring(&self, harts: u32) {
        self.rung.set(self.rung.get() | harts);
    }

    fn serve(&self) -> u64 {
        self.ms.set(self.ms.get() + 1);
        (self.acts)(self.ms.get());
        self.ms.get()
    }
}

/// Gathers harts of which `running` run, and returns those that were interrupted.
fn gather(
    gathering: &Gathering,
    running: &Cell<u32>,
    acts: impl Fn(u64),
) -> (Result<(), NotGathered>, u32) {
    let rung = Cell::new(0);
    let model = Model {
        running,
        rung: &rung,
        ms: Cell::new(0),
        acts,
    };
    (gathering.gather(&model), rung.get())
}

/// Both harts arrive, and later give their states.
fn give(gathering: &Gathering, places: [usize; 2]) {
    if gathering.next() == Arrived::Gives {
        places.into_iter().for_each(|place| gathering.leave(place));
    }
}

#[test]
fn a_hart_alone_waits_for_none() {
    let gathered = gather(&Gathering::new(), &Cell::new(0), |_| ());
    assert_eq!(gathered, (Ok(()), 0));
}

#[test]
fn all_that_run_arrive_and_then_give() {
    let gathering = Gathering::new();
    let running = Cell::new(0b10);
    let gathered = gather(&gathering, &running, |ms| {
        match ms {
            // The hart starts another one before it arrives.
            5 => running.set(0b110),
            6 => gathering.arrive(1),
            9 => {
                assert_eq!(gathering.next(), Arrived::Waits, "for the hart that starts");
                gathering.arrive(2);
            }
            _ => {}
        }
        give(&gathering, [1, 2]);
    });
    assert_eq!(gathered, (Ok(()), 0b110));
    assert!(!gathering.is_called() && gathering.arrived() == 0);
}

#[test]
fn a_hart_that_stops_does_not_arrive() {
    let running = Cell::new(0b10);
    let gathered = gather(&Gathering::new(), &running, |ms| {
        running.set(if ms < 9 { 0b10 } else { 0 });
    });
    assert_eq!(gathered.0, Ok(()));
}

#[test]
fn a_hart_that_does_not_answer_is_named_and_the_others_continue() {
    let gathering = Gathering::new();
    let gathered = gather(&gathering, &Cell::new(0b1010), |ms| {
        if ms == 2 {
            gathering.arrive(1);
        }
    });
    assert_eq!(gathered.0, Err(NotGathered::Late(3)));
    assert_eq!(gathering.next(), Arrived::Continues);
}

#[test]
fn a_hart_outside_of_the_os_calls_it_off() {
    let gathering = Gathering::new();
    let gathered = gather(&gathering, &Cell::new(0b10), |_| gathering.end());
    assert_eq!(gathered.0, Err(NotGathered::Outside));
    assert!(!gathering.is_called());
}

#[test]
fn one_hart_calls_at_a_time() {
    let gathering = Gathering::new();
    assert!(gathering.call());
    let gathered = gather(&gathering, &Cell::new(0b10), |_| ());
    assert_eq!(gathered, (Err(NotGathered::Called), 0));
    assert!(gathering.is_called());
}
