//! Memories whose parts do one thing after the other: DRAM, LightPC-B, and a DIMM of figure 13a.

use alloc::vec;
use alloc::vec::Vec;

use arrayvec::ArrayVec;

use super::faults::{Faults, State};
use super::place::{Map, Place};
use super::shared::Shared;
use super::{Counts, Memory};
use crate::parameters::{Name, Parameters};
use crate::time::Time;

/// What works in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bank, or a group of two devices.
    Group,
    /// A DIMM.
    Dimm,
    /// The controller.
    Controller,
}

/// The most writes that a queue holds.
const MOST_QUEUE: usize = 16;

#[derive(Clone, Debug, Default)]
struct Server {
    /// When it can begin an access after all that was asked so far.
    free: Time,
    /// When all that was asked so far is done.
    done: Time,
    /// When the last write that was asked is done.
    written: Time,
    /// When the last writes start, the oldest first.
    starts: ArrayVec<Time, MOST_QUEUE>,
}

/// A memory whose units do one thing after the other.
#[derive(Clone, Debug)]
pub struct InOrder {
    map: Map,
    lines: u64,
    unit: Unit,
    servers: Vec<Server>,
    read: Time,
    write: Time,
    recovery: Time,
    /// What the banks of each DIMM share; empty: nothing.
    shared: Vec<Shared>,
    link: Time,
    queue: usize,
    blocked: Time,
    /// Dead devices. Without parity each line of their groups is lost.
    faults: Faults,
    counts: Counts,
}

impl InOrder {
    /// DRAM: its banks are busy for an access's time.
    #[must_use]
    pub fn dram(parameters: &Parameters) -> Self {
        let access = parameters.dram();
        let map = Map::of_dram(parameters);
        Self::new(parameters, map, Unit::Group, [access, access])
    }

    /// PRAM whose `unit`s serve reads and writes in the order of their arrival.
    #[must_use]
    pub fn pram(parameters: &Parameters, unit: Unit) -> Self {
        let times = [parameters.read(), parameters.write()];
        Self::with_faults(parameters, unit, times)
    }

    /// PRAM whose DIMMs enable all devices at once: a write reads 256 bytes before.
    #[must_use]
    pub fn wide(parameters: &Parameters) -> Self {
        let read = parameters.read();
        let times = [read, read + parameters.write()];
        Self::with_faults(parameters, Unit::Dimm, times)
    }

    fn with_faults(parameters: &Parameters, unit: Unit, times: [Time; 2]) -> Self {
        let groups = parameters.count(Name::Dimms) * parameters.count(Name::Groups);
        let mut memory = Self::new(parameters, Map::of_pram(parameters), unit, times);
        memory.faults = Faults::of_pram(parameters, groups);
        memory
    }

    /// Whether the line of a place is whole.
    fn state(&self, place: Place) -> State {
        match self.faults.dead(place.group) > 0 || self.faults.is_lost(place.slot) {
            true => State::Contained,
            false => State::Whole,
        }
    }

    fn new(parameters: &Parameters, map: Map, unit: Unit, [read, write]: [Time; 2]) -> Self {
        // Banks are DRAM's groups.
        let units = parameters
            .count(Name::Groups)
            .max(parameters.count(Name::Banks));
        let servers = match unit {
            Unit::Group => parameters.count(Name::Dimms) * units,
            Unit::Dimm => parameters.count(Name::Dimms),
            Unit::Controller => 1,
        };
        InOrder {
            map,
            lines: parameters.lines(),
            unit,
            servers: vec![Server::default(); servers],
            read,
            write,
            recovery: parameters.time(Name::Recovery),
            shared: (0..parameters.count(Name::Dimms))
                .filter_map(|_| Shared::new(parameters))
                .collect(),
            link: parameters.link(),
            queue: parameters.count(Name::Queue),
            blocked: Time::ZERO,
            faults: Faults::default(),
            counts: Counts::default(),
        }
    }

    fn server(&mut self, group: usize, dimm: usize) -> &mut Server {
        let at = match self.unit {
            Unit::Group => group,
            Unit::Dimm => dimm,
            Unit::Controller => 0,
        };
        &mut self.servers[at]
    }

    /// Lets a server work for `time`, from `at` or the first time that it can; the time of its start.
    fn occupy(&mut self, at: Time, group: usize, dimm: usize, time: Time) -> Time {
        let wanted = self.server(group, dimm).free.max(at);
        let start = match self.shared.get_mut(dimm) {
            Some(shared) => shared.begin(wanted),
            None => wanted,
        };
        let recovery = self.recovery;
        let server = self.server(group, dimm);
        server.done = start + time;
        server.free = server.done + recovery;
        start
    }

    /// Forgets what restricts no access from `now` on.
    fn forget(&mut self, now: Time) {
        for shared in &mut self.shared {
            shared.forget(now);
        }
    }

    /// Starts a read; the time of its end. `true`: a write was before it.
    fn start_read(&mut self, at: Time, group: usize, dimm: usize) -> (Time, bool) {
        let is_conflict = self.server(group, dimm).written > at;
        let start = self.occupy(at, group, dimm, self.read);
        (start + self.read, is_conflict)
    }

    /// Queues a write; the time at which the queue has it.
    fn queue_write(&mut self, at: Time, group: usize, dimm: usize) -> Time {
        let start = self.occupy(at, group, dimm, self.write);
        let queue = self.queue;
        let server = self.server(group, dimm);
        // The queue has room once the write that came `queue` writes before has started.
        let taken = match server.starts.len() >= queue {
            true => server.starts.remove(0).max(at),
            false => at,
        };
        server.starts.push(start);
        server.written = server.done;
        self.counts.programs += 1;
        taken
    }

    fn level_wear(&mut self, at: Time) {
        if let Some(moved) = self.map.written() {
            let [from, to] = [moved.from, moved.to].map(|slot| self.map.of_slot(slot));
            let (read, _) = self.start_read(at, from.group, from.dimm);
            self.queue_write(read, to.group, to.dimm);
            self.faults.written(to.slot);
            if self.state(from) == State::Contained {
                self.faults.lose(to.slot);
            }
            self.counts.moves += 1;
        }
    }
}

impl Memory for InOrder {
    fn read(&mut self, at: Time, line: u32) -> Time {
        let begun = at.max(self.blocked);
        self.forget(begun);
        let place = self.map.place(line, self.lines);
        let (end, is_conflict) = self.start_read(begun, place.group, place.dimm);
        let done = end + self.link;
        self.counts.conflicts += u64::from(is_conflict);
        self.counts.read(at, done, self.state(place));
        done
    }

    fn write(&mut self, at: Time, line: u32) -> Time {
        let begun = at.max(self.blocked);
        self.forget(begun);
        let place = self.map.place(line, self.lines);
        let taken = self.queue_write(begun, place.group, place.dimm);
        self.faults.written(place.slot);
        self.counts.writes += 1;
        self.level_wear(begun);
        taken
    }

    fn flush(&mut self, at: Time) -> Time {
        let ends = self.servers.iter().map(|server| server.done);
        let end = ends.fold(at, Time::max);
        self.blocked = end;
        self.counts.flushes += 1;
        end
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
