//! A chain of callbacks, as of the listeners to a suspend: functions in structures that point to each
//! other.

use super::program::Program;
use crate::{arch::kernel_space::KernelSpace, random::Random};

const LISTENERS: usize = 12;
const EVENTS: usize = 64;

type Callback = extern "C" fn(&mut Listener, u64, &mut Shared) -> Answer;

/// Whether the next listener is called.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Answer {
    Next,
    Stop,
}

/// A listener.
struct Listener {
    call: Callback,
    next: *mut Listener,
    /// The listener's own state.
    count: u32,
    mask: u32,
    last: u64,
}

/// What all listeners change.
#[derive(Default)]
struct Shared {
    users: u32,
    changes: u32,
    sum: u64,
}

/// Counts events of its kinds.
extern "C" fn counts(own: &mut Listener, event: u64, shared: &mut Shared) -> Answer {
    if event as u32 & own.mask != 0 {
        own.count += 1;
        shared.changes += 1;
    }
    Answer::Next
}

/// Counts users: one kind of events adds one, another takes one away.
extern "C" fn holds(own: &mut Listener, event: u64, shared: &mut Shared) -> Answer {
    if event & 1 == 0 {
        own.count += 1;
        shared.users += 1;
    } else if own.count > 0 {
        own.count -= 1;
        shared.users -= 1;
    }
    Answer::Next
}

/// Ignores an event that comes again.
extern "C" fn remembers(own: &mut Listener, event: u64, shared: &mut Shared) -> Answer {
    if own.last == event {
        return Answer::Stop;
    }
    own.last = event;
    shared.sum = shared.sum.wrapping_add(event);
    Answer::Next
}

/// Ends some events after a few of them.
extern "C" fn stops(own: &mut Listener, event: u64, shared: &mut Shared) -> Answer {
    own.count = own.count.wrapping_add(event as u32 >> 8);
    if own.count & own.mask == own.mask {
        own.count = 0;
        shared.sum ^= event;
        return Answer::Stop;
    }
    Answer::Next
}

/// Calls the listeners until one stops, and returns the number of calls.
#[inline(never)]
fn notify(first: *mut Listener, event: u64, shared: &mut Shared) -> u64 {
    let mut calls = 0;
    let mut next = first;
    // SAFETY: `settle` has linked the listeners, which lie in one array. One reference is there at a time.
    while let Some(listener) = unsafe { next.as_mut() } {
        next = listener.next;
        calls += 1;
        if (listener.call)(listener, event, shared) == Answer::Stop {
            break;
        }
    }
    calls
}

pub(super) struct Chain {
    listeners: [Listener; LISTENERS],
    order: [u8; LISTENERS],
    first: *mut Listener,
    shared: Shared,
    events: [u64; EVENTS],
}

impl Program for Chain {
    const NAME: &str = "chain";

    fn begin(random: &mut Random, space: &KernelSpace) -> Self {
        let callbacks: [Callback; 4] = [counts, holds, remembers, stops];
        let mut order = core::array::from_fn(|number| number as u8);
        for last in (1..LISTENERS).rev() {
            order.swap(last, random.below(last + 1));
        }
        let listeners = core::array::from_fn(|number| Listener {
            call: space.in_image(callbacks[number % callbacks.len()]),
            next: core::ptr::null_mut(),
            count: 0,
            mask: 3 << random.below(4),
            last: 0,
        });
        Chain {
            listeners,
            order,
            first: core::ptr::null_mut(),
            shared: Shared::default(),
            events: core::array::from_fn(|_| random.next() as u64),
        }
    }

    fn settle(&mut self) {
        let listeners = self.listeners.as_mut_ptr();
        for number in self.order {
            let listener = listeners.wrapping_add(number.into());
            // SAFETY: a listener of the array.
            unsafe { (*listener).next = self.first };
            self.first = listener;
        }
    }

    fn round(&mut self, round: usize) -> u64 {
        let event = self.events[round % EVENTS];
        let calls = notify(self.first, event, &mut self.shared);
        let Shared {
            users,
            changes,
            sum,
        } = self.shared;
        calls ^ u64::from(users) ^ u64::from(changes) << 8 ^ sum
    }
}
