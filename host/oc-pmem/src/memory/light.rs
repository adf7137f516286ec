//! LightPC's memory: early-return writes, row buffers, and reads that rebuild a line.

use alloc::vec;
use alloc::vec::Vec;

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

    /// The group with a line's parity: the same one in the next DIMM.
    fn partner(&self, place: Place) -> usize {
        let next = place.group + self.in_dimm;
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

    /// Reads a slot; the time at which the controller has it.
    fn read_place(&mut self, at: Time, place: Place) -> Time {
        self.settle(place.group, at);
        let (page, bit) = self.page(place.line);
        let group = &self.groups[place.group];
        if let Some(held) = group.held(at, page, bit, false) {
            let start = at.max(held.arrived);
            self.counts.from_row_buffer += 1;
            (self.watch).read(place.slot, Served::RowBuffer(Copy::Data), start);
            return start;
        }
        let is_conflict = group.free > at && group.is_programming(at);
        self.counts.conflicts += u64::from(is_conflict);
        if is_conflict
            && self.rebuilds
            && let Some(done) = self.rebuilt(at, place)
        {
            self.counts.rebuilt += 1;
            return done;
        }
        let done = self.groups[place.group].read(at, self.read);
        (self.watch).read(place.slot, Served::Devices, done - self.read);
        done
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
            Parity::Striped if self.dimms() == 1 => return None,
            Parity::Striped => return self.rebuilt_by_partner(at, place),
        };
        (self.watch).read(place.slot, Served::Rebuilt, start);
        Some(start + self.read + self.rebuild)
    }

    fn rebuilt_by_partner(&mut self, at: Time, place: Place) -> Option<Time> {
        let partner = self.partner(place);
        self.settle(partner, at);
        let (page, bit) = self.page(place.line);
        if let Some(held) = self.groups[partner].held(at, page, bit, true) {
            let start = at.max(held.arrived);
            (self.watch).read(place.slot, Served::RowBuffer(Copy::Parity), start);
            return Some(start + self.rebuild);
        }
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
        let taken = self.write_group(at, place.group, place.line, false);
        if !self.has_stripes() {
            return taken;
        }
        self.watch.accepted(Copy::Parity, place.slot);
        let partner = self.partner(place);
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
            let read = self.read_place(at, from);
            self.watch.moved(moved.from, moved.to);
            self.write_place(read, to);
            self.counts.moves += 1;
        }
    }
}

impl<W: Watch> Memory for LightPc<W> {
    fn read(&mut self, at: Time, line: u32) -> Time {
        let place = self.map.place(line, self.lines);
        let done = self.read_place(at.max(self.blocked), place) + self.link;
        self.counts.reads += 1;
        self.counts.read_time += done - at;
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
