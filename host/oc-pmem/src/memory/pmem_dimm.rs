//! Section II's PMEM DIMM: buffers inside the DIMM, before PRAM that is accessed in 256 bytes. Sizes and
//! times are those of VANS (reference 19), with this model's PRAM behind them.
//!
//! Writes wait in a queue (LSQ), which combines them to blocks of 256 bytes. An SRAM has the last blocks
//! for read-modify-write. A DRAM has the last pages of 4 KiB, and the table of addresses. Both write
//! back what they give up.

use alloc::vec::Vec;

use arrayvec::ArrayVec;

use super::faults::State;
use super::recent::Recent;
use super::{Counts, Memory};
use crate::parameters::{Name, Parameters};
use crate::time::Time;

/// Lines of a block, and of a page. Pages lie on the DIMMs in turn.
const BLOCK: u64 = 4;
const PAGE: u64 = 64;

/// The most blocks that wait in the queue.
const MOST_QUEUE: usize = 64;

/// A block that waits in the queue, or works its way through the buffers.
#[derive(Clone, Copy, Debug)]
struct Combined {
    block: u64,
    /// A bit for each written line.
    lines: u8,
    /// When it is in the SRAM; `None`: it still waits.
    done: Option<Time>,
}

/// The times of a DIMM's parts.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// The queue and the SRAM, of a read and of a write.
    sram_read: Time,
    sram_write: Time,
    /// From the SRAM to the DRAM, and back.
    down: Time,
    up: Time,
    dram: Time,
    read: Time,
    write: Time,
    link: Time,
}

#[derive(Clone, Debug)]
struct Dimm {
    queue: ArrayVec<Combined, MOST_QUEUE>,
    sram: Recent,
    dram: Recent,
    /// When the DRAM and the PRAM are free.
    dram_free: Time,
    media_free: Time,
    is_dead: bool,
}

/// A memory of such DIMMs.
#[derive(Clone, Debug)]
pub struct PmemDimms {
    dimms: Vec<Dimm>,
    lines: u64,
    times: Times,
    /// Lines that the queue has room for.
    queue: usize,
    blocked: Time,
    counts: Counts,
}

impl PmemDimms {
    /// A memory with these parameters.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Self {
        let devices = 2 * parameters.count(Name::Groups);
        let dimm = |number: usize| Dimm {
            queue: ArrayVec::new(),
            sram: Recent::new(parameters.count(Name::SramBlocks)),
            dram: Recent::new(parameters.count(Name::DramPages)),
            dram_free: Time::ZERO,
            media_free: Time::ZERO,
            is_dead: parameters.dead().any(|device| device / devices == number),
        };
        PmemDimms {
            dimms: (0..parameters.count(Name::Dimms)).map(dimm).collect(),
            lines: parameters.lines(),
            times: Times {
                sram_read: Time(parameters.get(Name::SramRead)),
                sram_write: Time(parameters.get(Name::SramWrite)),
                down: Time(parameters.get(Name::Down)),
                up: Time(parameters.get(Name::Up)),
                dram: parameters.dram(),
                read: parameters.read(),
                write: parameters.write(),
                link: parameters.link(),
            },
            queue: parameters.count(Name::QueuedLines),
            blocked: Time::ZERO,
            counts: Counts::default(),
        }
    }

    /// The DIMM of a line, and the line there.
    fn place(&self, line: u32) -> (usize, u64) {
        let line = u64::from(line) % self.lines;
        let (page, count) = (line / PAGE, self.dimms.len() as u64);
        let dimm = usize::try_from(page % count).unwrap_or_default();
        (dimm, page / count * PAGE + line % PAGE)
    }
}

impl Dimm {
    /// Lines that wait at `at`. A block in the SRAM has no such line.
    fn waiting(&mut self, at: Time) -> usize {
        self.queue
            .retain(|one| one.done.is_none_or(|done| done > at));
        let lines = self.queue.iter().map(|one| one.lines.count_ones() as usize);
        lines.sum()
    }

    /// Uses the DRAM; the time at which it is done.
    fn use_dram(&mut self, at: Time, times: &Times) -> Time {
        self.dram_free = self.dram_free.max(at) + times.dram;
        self.dram_free
    }

    /// Brings a page into the DRAM, if it is not there; the time at which it is. The table of addresses
    /// is there, so each access begins with it.
    fn need_page(
        &mut self,
        at: Time,
        page: u64,
        dirty: bool,
        times: &Times,
        counts: &mut Counts,
    ) -> Time {
        let found = self.dram.touch(page, dirty);
        let mut ready = self.use_dram(at, times);
        if found.is_hit {
            return ready;
        }
        // The displaced page leaves after the read that the access waits for.
        ready = self.media_free.max(ready) + times.read;
        self.media_free = ready;
        if found.displaced_dirty.is_some() {
            self.media_free += times.write;
            counts.programs += 1;
        }
        ready
    }

    /// Brings a block into the SRAM, if it is not there; the time at which it is. `whole`: all of it is
    /// written, so nothing is read.
    fn need_block(
        &mut self,
        at: Time,
        block: u64,
        write: Option<bool>,
        times: &Times,
        counts: &mut Counts,
    ) -> Time {
        let found = self.sram.touch(block, write.is_some());
        if let Some(displaced) = found.displaced_dirty {
            // It goes down beside the access that displaced it.
            let page = displaced * BLOCK / PAGE;
            self.need_page(at + times.down, page, true, times, counts);
        }
        if found.is_hit || write == Some(true) {
            return at;
        }
        let page = block * BLOCK / PAGE;
        self.need_page(at + times.down, page, false, times, counts) + times.up
    }

    /// Sends the oldest waiting block to the SRAM; the time at which it is there.
    fn drain(&mut self, at: Time, times: &Times, counts: &mut Counts) -> Option<Time> {
        let number = self.queue.iter().position(|one| one.done.is_none())?;
        let Combined { block, lines, .. } = self.queue[number];
        let is_whole = lines.count_ones() == u32::try_from(BLOCK).unwrap_or_default();
        let done = self.need_block(at, block, Some(is_whole), times, counts) + times.sram_write;
        self.queue[number].done = Some(done);
        Some(done)
    }
}

impl Memory for PmemDimms {
    fn read(&mut self, at: Time, line: u32) -> Time {
        let begun = at.max(self.blocked);
        let (number, place) = self.place(line);
        let (times, dimm) = (self.times, &mut self.dimms[number]);
        let block = place / BLOCK;
        let looked_up = begun + times.sram_read;
        dimm.waiting(begun);
        let waits = dimm
            .queue
            .iter()
            .any(|one| one.block == block && one.lines & 1 << (place % BLOCK) != 0);
        let is_near = waits || dimm.sram.has(block);
        let ready = match waits {
            true => looked_up,
            false => dimm.need_block(looked_up, block, None, &times, &mut self.counts),
        };
        self.counts.from_row_buffer += u64::from(is_near);
        let done = ready + times.link;
        let state = match dimm.is_dead {
            true => State::Contained,
            false => State::Whole,
        };
        self.counts.read(at, done, state);
        done
    }

    fn write(&mut self, at: Time, line: u32) -> Time {
        let begun = at.max(self.blocked);
        let (number, place) = self.place(line);
        let (times, queue) = (self.times, self.queue);
        let (dimm, counts) = (&mut self.dimms[number], &mut self.counts);
        counts.writes += 1;
        let (block, bit) = (place / BLOCK, 1 << (place % BLOCK));
        let mut taken = begun;
        while dimm.waiting(taken) >= queue {
            // The queue sends all that it has, and the hart waits for the first of them.
            while dimm.drain(taken, &times, counts).is_some() {}
            let first = dimm.queue.iter().filter_map(|one| one.done).min();
            taken = first.unwrap_or(taken).max(taken);
        }
        let mut waiting = dimm.queue.iter_mut().filter(|one| one.done.is_none());
        match waiting.find(|one| one.block == block) {
            Some(combined) => {
                combined.lines |= bit;
                counts.row_hits += 1;
            }
            None => dimm.queue.push(Combined {
                block,
                lines: bit,
                done: None,
            }),
        }
        taken + times.sram_write
    }

    /// All that the queues and buffers have reaches the PRAM.
    fn flush(&mut self, at: Time) -> Time {
        let (times, counts) = (self.times, &mut self.counts);
        let mut end = at;
        for dimm in &mut self.dimms {
            while let Some(done) = dimm.drain(at, &times, counts) {
                end = end.max(done);
            }
            for block in dimm.sram.take_dirty() {
                let page = block * BLOCK / PAGE;
                end = end.max(dimm.need_page(at + times.down, page, true, &times, counts));
            }
            for _page in dimm.dram.take_dirty() {
                dimm.media_free = dimm.media_free.max(end) + times.write;
                counts.programs += 1;
            }
            end = end.max(dimm.media_free);
        }
        self.blocked = end;
        counts.flushes += 1;
        end
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
