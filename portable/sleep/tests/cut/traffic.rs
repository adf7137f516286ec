//! What harts and devices send one another while the machine stops: calls that interrupt a
//! hart, stores into its interrupt file, messages of devices, and edges of wires at a
//! controller. Of what was sent none may be lost.

use std::cell::{Cell, RefCell};

use poorwill_sleep::cut::stop;
use proptest::prelude::*;

use crate::machine::{HARTS, Kept, Machine, Mutant};
use crate::{power_on_machine, started};

/// What is sent to a hart, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// That hart calls machine mode, which posts it, and tells the caller of success.
    Call { from: usize },
    /// That hart stores it into the other's interrupt file.
    Store { from: usize },
    /// A device writes it there.
    Device,
    /// The controller has an edge, and sends it, or keeps it pending.
    Wire,
}

/// At which step it is sent, and to which hart.
pub(crate) type Sent = (usize, Message, usize);

/// All of that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    plan: RefCell<Vec<Sent>>,
    /// At which step each hart has ended its last call, and stops.
    stops: Cell<[usize; HARTS]>,
    has_stopped: Cell<[bool; HARTS]>,
    /// Posted by calls, a bit for each message; in each hart's interrupt file; and pending at the
    /// controller for that hart.
    posted: Cell<[u64; HARTS]>,
    file: Cell<[u64; HARTS]>,
    pending: Cell<[u64; HARTS]>,
    /// What the senders were told is sent.
    sent: Cell<[u64; HARTS]>,
    /// Devices send nothing any more; nor does the controller; and what is pending there is
    /// written down.
    pub(crate) is_quiet: Cell<bool>,
    pub(crate) is_shut: Cell<bool>,
    is_over: Cell<bool>,
}

fn add(to: &Cell<[u64; HARTS]>, hart: usize, bits: u64) {
    let mut all = to.get();
    all[hart] |= bits;
    to.set(all);
}

impl Traffic {
    /// What happens by itself as the machine takes that step.
    pub(crate) fn step(&self, step: usize) {
        let stops = self.stops.get();
        let has_stopped = stops.map(|at| at <= step);
        self.has_stopped.set(has_stopped);
        let plan = self.plan.borrow();
        for (number, (at, message, to)) in plan.iter().enumerate() {
            if *at == step {
                self.send(*message, *to, 1 << number, has_stopped);
            }
        }
    }

    fn send(&self, message: Message, to: usize, bit: u64, has_stopped: [bool; HARTS]) {
        let place = match message {
            Message::Call { from } if !has_stopped[from] => &self.posted,
            Message::Store { from } if !has_stopped[from] => &self.file,
            Message::Device if !self.is_quiet.get() => &self.file,
            Message::Wire if !self.is_shut.get() => &self.file,
            // As one that comes while the power is off: nothing was told that it came.
            Message::Wire if !self.is_over.get() => &self.pending,
            _ => return,
        };
        add(place, to, bit);
        add(&self.sent, to, bit);
    }

    pub(crate) fn have_stopped(&self) -> bool {
        self.has_stopped.get() == [true; HARTS]
    }

    pub(crate) fn has_stopped(&self, hart: usize) -> bool {
        self.has_stopped.get()[hart]
    }

    /// The hart takes what others have posted, and is interrupted by all of this then.
    pub(crate) fn take(&self, hart: usize) -> u64 {
        let mut posted = self.posted.get();
        add(&self.file, hart, posted[hart]);
        posted[hart] = 0;
        self.posted.set(posted);
        self.file.get()[hart]
    }

    /// What interrupts the hart, but for what it has not taken.
    pub(crate) fn in_file(&self, hart: usize) -> u64 {
        self.file.get()[hart]
    }

    /// What is pending at the controller, which is written down.
    pub(crate) fn pending(&self) -> [u64; HARTS] {
        self.is_over.set(true);
        self.pending.get()
    }
}

/// Stops a machine while this is sent, and has it go on. What each hart was sent, and what it
/// was interrupted by then; and how many steps it took to stop.
fn run(
    kept: &Kept,
    mutant: Option<Mutant>,
    stops: [usize; HARTS],
    plan: &[Sent],
) -> ([u64; HARTS], [u64; HARTS], usize) {
    let machine = Machine::new(kept.clone());
    machine.proof.replace(kept.flash.proof());
    machine.mutant.set(mutant);
    machine.run(5);
    machine.steps.set(0);
    machine.traffic.stops.set(stops);
    machine.traffic.plan.replace(plan.to_vec());
    stop(&machine).unwrap();
    let (sent, steps) = (machine.traffic.sent.get(), machine.steps.get());
    let next = power_on_machine(machine.power_off(0));
    (sent, next.interrupted.get(), steps)
}

/// In which the harts end their last calls.
const ORDERS: [[usize; HARTS]; 5] = [[0; HARTS], [2, 9, 4], [1, 3, 12], [12, 3, 1], [30, 1, 30]];

/// All that may be sent, to another hart.
fn messages() -> impl Iterator<Item = (Message, usize)> {
    let harts = || (0..HARTS).flat_map(|from| (0..HARTS).map(move |to| (from, to)));
    let apart = harts().filter(|(from, to)| from != to);
    let by_harts =
        apart.flat_map(|(from, to)| [(Message::Call { from }, to), (Message::Store { from }, to)]);
    let others = (0..HARTS).flat_map(|to| [(Message::Device, to), (Message::Wire, to)]);
    by_harts.chain(others)
}

/// How many messages are sent, and how many of them are lost, of each kind alone and at each
/// step of Stop.
fn count(mutant: Option<Mutant>) -> (u32, u32) {
    let (mut all, mut lost) = (0, 0);
    for kept in started() {
        for stops in ORDERS {
            let (_, _, steps) = run(&kept, mutant, stops, &[]);
            for (message, to) in messages() {
                for at in 1..=steps {
                    let (sent, taken, _) = run(&kept, mutant, stops, &[(at, message, to)]);
                    let is_sent = sent != [0; HARTS];
                    all += u32::from(is_sent);
                    lost += u32::from(is_sent && sent != taken);
                    assert!(is_sent || taken == [0; HARTS], "{message:?} at {at}");
                }
            }
        }
    }
    (all, lost)
}

#[test]
fn nothing_that_was_sent_is_lost_whenever_that_was() {
    let (all, lost) = count(None);
    assert!(all > 1000, "{all} messages");
    assert_eq!(lost, 0, "of {all} messages");
}

/// The order of before: each hart writes its part as soon as it has stopped; and one in which the
/// harts write theirs before devices are quiet, or before the controllers are shut.
#[test]
fn another_order_loses_some() {
    for mutant in [
        Mutant::PartsAtStop,
        Mutant::PartsBeforeQuiet,
        Mutant::NotShut,
        Mutant::NotTaken,
    ] {
        let (all, lost) = count(Some(mutant));
        assert!(lost > 0, "{mutant:?}: {lost} of {all}");
    }
}

fn any_message() -> impl Strategy<Value = (Message, usize)> {
    let all: Vec<_> = messages().collect();
    prop::sample::select(all)
}

proptest! {
    #[test]
    fn nothing_is_lost_of_many(
        stops in prop::array::uniform3(0usize..40),
        plan in prop::collection::vec((1usize..60, any_message()), 0..60),
        has_vault: bool,
    ) {
        let plan: Vec<Sent> = plan.into_iter().map(|(at, (what, to))| (at, what, to)).collect();
        let kept = &started()[usize::from(has_vault)];
        let (sent, taken, _) = run(kept, None, stops, &plan);
        prop_assert_eq!(sent, taken);
    }
}
