//! LightPC's memory: early-return writes, row buffers, and reads that rebuild a line.

use alloc::vec;
use alloc::vec::Vec;

use super::faults::{Faults, State};
use super::group::{Group, Program, Written};
use super::place::{Map, Place};
use super::watch::{Copy, Served, Watch};
use super::{Counts, Memory};
use crate::parameters::{Name, Parameters, Parity};
use crate::time::Time;

/// LightPC's memory.
#[derive(Clone, Debug)]
pub struct LightPc<W = ()> {
    map: Map,
    lines: u64,
    groups: Vec<Group>,
    /// Groups of a DIMM.
    in_dimm: usize,
    /// When the half that is not written can be read, for each group (`Parity::Halves`).
    halves: Vec<Time>,
    read: Time,
    write: Time,
    link: Time,
    rebuild: Time,
    parity: Parity,
    rebuilds: bool,
    early: bool,
    queue: usize,
    /// Lines of a page, as a power of two.
    page: u32,
    blocked: Time,
    faults: Faults,
    counts: Counts,
    watch: W,
}

impl LightPc<()> {
    /// A memory with these parameters.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        Self::watched(parameters, ())
    }
}

impl<W: Watch> LightPc<W> {
    /// A memory that tells `watch` what happens to its contents.
    #[must_use]
    pub fn watched(parameters: &Parameters, watch: W) -> Self {
        let groups = parameters.count(Name::Dimms) * parameters.count(Name::Groups);
        let parity = parameters.parity();
        let halves = match parity {
            Parity::Halves => 2,
            Parity::Free | Parity::Striped => 1,
        };
        LightPc {
            map: Map::of_pram(parameters),
            lines: parameters.lines(),
            groups: vec![Group::default(); groups],
            in_dimm: parameters.count(Name::Groups),
            halves: vec![Time::ZERO; groups],
            read: parameters.read(),
            write: parameters.write() * halves,
            link: parameters.link(),
            rebuild: parameters.rebuild(),
            parity,
            rebuilds: parameters.is_on(Name::Reconstruct),
            early: parameters.is_on(Name::Early),
            queue: parameters.count(Name::Queue),
            page: parameters.page_lines(),
            blocked: Time::ZERO,
            faults: Faults::of_pram(parameters, groups),
            counts: Counts::default(),
            watch,
        }
    }

    /// The watch.
    pub fn watch(&mut self) -> &mut W {
        &mut self.watch
    }

    /// Writes that wait for their devices.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.groups.iter().map(|group| group.queue.len()).sum()
    }

    /// The line's present slot.
    #[must_use]
    pub fn slot(&self, line: u32) -> u64 {
        self.map.place(line, self.lines).slot
    }

    /// The page of a line in its group, and its bit there.
    fn page(&self, line: u64) -> (u64, u128) {
        (line >> self.page, 1 << (line & ((1 << self.page) - 1)))
    }

    /// The group with the parity of a group's lines: the same one in the next DIMM.
    fn partner(&self, group: usize) -> usize {
        let next = group + self.in_dimm;
        match next < self.groups.len() {
            true => next,
            false => next - self.groups.len(),
        }
    }

    fn dimms(&self) -> usize {
        self.map.dimms()
    }

    /// Whether a line's parity is written to another DIMM.
    fn has_stripes(&self) -> bool {
        self.parity == Parity::Striped && self.dimms() > 1
    }

    /// Starts all program operations of a group that begin at or before `at`.
    fn settle(&mut self, group: usize, at: Time) {
        while let Some(program) = self.groups[group].start(at, self.write) {
            self.tell(group, &program);
        }
    }

    fn tell(&mut self, group: usize, program: &Program) {
        self.counts.programs += 1;
        let Written {
            page,
            mut lines,
            is_parity,
            ..
        } = program.written;
        while lines != 0 {
            let line = (page << self.page) + u64::from(lines.trailing_zeros());
            lines &= lines - 1;
            let (copy, group) = match is_parity {
                true => (Copy::Parity, self.owner(group)),
                false => (Copy::Data, group),
            };
            let slot = self.map.slot_of(group, line);
            self.watch.programmed(copy, slot, program.end);
        }
    }

    /// The group whose lines' parity this group has.
    fn owner(&self, group: usize) -> usize {
        match group.checked_sub(self.in_dimm) {
            Some(before) => before,
            None => group + self.groups.len() - self.in_dimm,
        }
    }

    /// What dead devices leave of a group's lines. XOR gives one half of a stripe, which is the group's
    /// devices and those with its parity.
    fn state(&self, group: usize) -> State {
        let (own, parity) = (self.faults.dead(group), self.dead_parity(group));
        match (own, parity) {
            (0, _) => State::Whole,
            (1, Some(0)) => State::Halved,
            _ => State::Contained,
        }
    }

    /// Dead devices with the parity of the group's lines; `None`: its lines have no parity. Only striped
    /// parity has devices that can die.
    fn dead_parity(&self, group: usize) -> Option<u8> {
        match self.parity {
            Parity::Free | Parity::Halves => Some(0),
            Parity::Striped if self.dimms() == 1 => None,
            Parity::Striped => Some(self.faults.dead(self.partner(group))),
        }
    }

    /// Reads a slot; the time at which the controller has it, and what it has.
    fn read_place(&mut self, at: Time, place: Place) -> (Time, State) {
        let (done, state) = self.read_devices(at, place);
        match self.faults.is_lost(place.slot) {
            true => (done, State::Contained),
            false => (done, state),
        }
    }

    fn read_devices(&mut self, at: Time, place: Place) -> (Time, State) {
        self.settle(place.group, at);
        let (page, bit) = self.page(place.line);
        let group = &self.groups[place.group];
        if let Some(held) = group.held(at, page, bit, false) {
            let start = at.max(held.arrived);
            self.counts.from_row_buffer += 1;
            (self.watch).read(place.slot, Served::RowBuffer(Copy::Data), start);
            // The row buffers are the controller's own, so a dead device takes nothing from them.
            return (start, State::Whole);
        }
        let is_conflict = group.free > at && group.is_programming(at);
        self.counts.conflicts += u64::from(is_conflict);
        match self.state(place.group) {
            State::Whole => {}
            State::Halved => return (self.read_halved(at, place), State::Halved),
            State::Contained => {
                let done = self.groups[place.group].read(at, self.read);
                return (done, State::Contained);
            }
        }
        if is_conflict
            && self.rebuilds
            && let Some(done) = self.rebuilt(at, place)
        {
            self.counts.rebuilt += 1;
            return (done, State::Whole);
        }
        let done = self.groups[place.group].read(at, self.read);
        (self.watch).read(place.slot, Served::Devices, done - self.read);
        (done, State::Whole)
    }

    /// Reads a line with a dead device: the live one has a half, and parity gives the other. The group is
    /// waited for, written or not, as XOR needs both.
    fn read_halved(&mut self, at: Time, place: Place) -> Time {
        let half = self.groups[place.group].read(at, self.read);
        (self.watch).read(place.slot, Served::Half, half - self.read);
        let parity = match self.parity {
            // Its parity is never busy.
            Parity::Free | Parity::Halves => at + self.read,
            Parity::Striped => self.read_parity(at, place),
        };
        half.max(parity) + self.rebuild
    }

    /// Reads a slot's parity from its partner: a row buffer has it, or the devices.
    fn read_parity(&mut self, at: Time, place: Place) -> Time {
        if let Some(start) = self.buffered_parity(at, place) {
            return start;
        }
        let partner = self.partner(place.group);
        let done = self.groups[partner].read(at, self.read);
        (self.watch).read(place.slot, Served::Rebuilt, done - self.read);
        done
    }

    /// Reads a slot's parity from a row buffer of its partner; `None`: no buffer has it.
    fn buffered_parity(&mut self, at: Time, place: Place) -> Option<Time> {
        let partner = self.partner(place.group);
        self.settle(partner, at);
        let (page, bit) = self.page(place.line);
        let held = self.groups[partner].held(at, page, bit, true)?;
        let start = at.max(held.arrived);
        (self.watch).read(place.slot, Served::RowBuffer(Copy::Parity), start);
        Some(start)
    }

    /// Rebuilds a line of a slot from its parity; `None`: its devices answer sooner.
    fn rebuilt(&mut self, at: Time, place: Place) -> Option<Time> {
        let start = match self.parity {
            Parity::Free => at,
            Parity::Halves => {
                let half = &mut self.halves[place.group];
                let start = at.max(*half);
                *half = start + self.read;
                start
            }
            // There is no parity, or half of it is on a dead device.
            Parity::Striped if self.dead_parity(place.group) != Some(0) => return None,
            Parity::Striped => return self.rebuilt_by_partner(at, place),
        };
        (self.watch).read(place.slot, Served::Rebuilt, start);
        Some(start + self.read + self.rebuild)
    }

    fn rebuilt_by_partner(&mut self, at: Time, place: Place) -> Option<Time> {
        if let Some(start) = self.buffered_parity(at, place) {
            return Some(start + self.rebuild);
        }
        let partner = self.partner(place.group);
        let is_sooner = self.groups[partner].free + self.rebuild < self.groups[place.group].free;
        is_sooner.then(|| {
            let done = self.groups[partner].read(at, self.read);
            (self.watch).read(place.slot, Served::Rebuilt, done - self.read);
            done + self.rebuild
        })
    }

    /// Writes a slot; the time at which a row buffer's queue has it.
    fn write_place(&mut self, at: Time, place: Place) -> Time {
        self.watch.accepted(Copy::Data, place.slot);
        self.faults.written(place.slot);
        let taken = self.write_group(at, place.group, place.line, false);
        if !self.has_stripes() {
            return taken;
        }
        self.watch.accepted(Copy::Parity, place.slot);
        let partner = self.partner(place.group);
        taken.max(self.write_group(at, partner, place.line, true))
    }

    fn write_group(&mut self, at: Time, group: usize, line: u64, is_parity: bool) -> Time {
        self.settle(group, at);
        let (page, bit) = self.page(line);
        if self.early
            && let Some(waiting) = self.groups[group].waiting(page, is_parity)
        {
            waiting.lines |= bit;
            self.counts.row_hits += u64::from(!is_parity);
            return at;
        }
        let mut taken = at;
        if self.groups[group].queue.len() >= self.queue {
            // The page that is first leaves the queue as soon as its operation starts.
            let program = self.groups[group].start_next(self.write);
            taken = taken.max(program.end - self.write);
            self.tell(group, &program);
        }
        self.groups[group].queue.push(Written {
            page,
            lines: bit,
            arrived: taken,
            is_parity,
        });
        if self.early {
            return taken;
        }
        // Without an early return the write ends with its own operation.
        while !self.groups[group].queue.is_empty() {
            let program = self.groups[group].start_next(self.write);
            self.tell(group, &program);
        }
        self.groups[group].free
    }

    fn level_wear(&mut self, at: Time) {
        if let Some(moved) = self.map.written() {
            let [from, to] = [moved.from, moved.to].map(|slot| self.map.of_slot(slot));
            let (read, state) = self.read_place(at, from);
            self.watch.moved(moved.from, moved.to);
            self.write_place(read, to);
            if state == State::Contained {
                self.faults.lose(to.slot);
            }
            self.counts.moves += 1;
        }
    }
}

impl<W: Watch> Memory for LightPc<W> {
    fn read(&mut self, at: Time, line: u32) -> Time {
        let place = self.map.place(line, self.lines);
        let (ready, state) = self.read_place(at.max(self.blocked), place);
        let done = ready + self.link;
        self.counts.read(at, done, state);
        done
    }

    fn write(&mut self, at: Time, line: u32) -> Time {
        let begun = at.max(self.blocked);
        let place = self.map.place(line, self.lines);
        let taken = self.write_place(begun, place);
        self.counts.writes += 1;
        self.level_wear(begun);
        taken
    }

    fn flush(&mut self, at: Time) -> Time {
        let mut end = at;
        for group in 0..self.groups.len() {
            while !self.groups[group].queue.is_empty() {
                let program = self.groups[group].start_next(self.write);
                self.tell(group, &program);
            }
            end = end.max(self.groups[group].free);
        }
        self.blocked = end;
        self.counts.flushes += 1;
        end
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
