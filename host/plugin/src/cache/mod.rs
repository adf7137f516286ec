//! Write-back caches, one for each hart, and the memory behind them.
//!
//! Harts see coherent memory, which is QEMU's RAM ([`Visible`]), with or without these caches. The
//! model keeps beside it the contents of the RAM chips. The two differ only in dirty lines, which
//! the chips do not have yet. When the power ends, a dirty line gets the chips' contents.
//!
//! A line is dirty in one cache at most. A store by another hart moves it there; a load by another
//! hart leaves it in place. There is no second level.
//!
//! The plugin does not see a device's write to memory. It notices one to a dirty line at the line's
//! next store, or at the end. The line then counts as written back with the device's bytes, as with
//! coherent DMA. One case stays unnoticed: a device writes to a clean line the same bytes as the
//! hart's next store. Memory then keeps the contents from before the device.

mod line;
mod pending;
mod ways;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use line::{LINE_BYTES, Line, Visible};
pub use pending::FlushKind;
pub use ways::{Geometry, GeometryError};

use line::{differs_by_device, with_part};
use pending::Pending;
use ways::Ways;

/// Counts of written-back lines by cause, and of devices' writes to dirty lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written back by an instruction with the line's address.
    pub by_line: u64,
    /// Written back by a store to a cache controller's register.
    pub by_register: u64,
    /// Written back by a flush of a hart's whole cache.
    pub all: u64,
    /// Written back because another line needed the place.
    pub displaced: u64,
    /// Stores to a dirty line after a device had written to it.
    pub device_writes: u64,
}

/// The losses when the power ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Dirty lines that were lost, for each hart.
    pub by_hart: Vec<u64>,
    /// Lost lines that memory already had with the same contents.
    pub unchanged: u64,
    /// Dirty lines that counted as written back by a device's write.
    pub device_written: u64,
    /// Numbers of the lost lines.
    pub lines: Vec<u32>,
}

/// The caches of a machine.
#[derive(Debug)]
pub struct Cache<V> {
    visible: V,
    memory: Vec<u8>,
    /// For each line, the number from 1 of the hart whose cache holds it dirty; 0: it is clean.
    owner: Vec<u16>,
    harts: Vec<Ways>,
    pending: Pending,
    counts: Counts,
}

impl<V: Visible> Cache<V> {
    /// Empty caches of `harts` harts, up to 65535, over memory of zeros. [`take`](Self::take) must
    /// be called for all other memory before the first store.
    pub fn new(visible: V, geometry: Geometry, harts: usize) -> Self {
        let lines = visible.lines();
        Cache {
            visible,
            memory: vec![0; lines * LINE_BYTES],
            owner: vec![0; lines],
            harts: vec![Ways::new(geometry); harts],
            pending: Pending::new(harts),
            counts: Counts::default(),
        }
    }

    /// Copies the visible contents of `lines` to memory.
    pub fn take(&mut self, lines: Range<u32>) {
        for line in lines {
            let contents = self.visible.read(line);
            self.set_memory(line, &contents);
        }
    }

    /// The memory as harts see it.
    pub fn visible(&self) -> &V {
        &self.visible
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Contents of a line in the RAM chips.
    #[must_use]
    pub fn memory(&self, line: u32) -> Line {
        let mut contents = [0; LINE_BYTES];
        contents.copy_from_slice(&self.memory[Self::place(line)]);
        contents
    }

    fn place(line: u32) -> Range<usize> {
        let start = line as usize * LINE_BYTES;
        start..start + LINE_BYTES
    }

    fn set_memory(&mut self, line: u32, contents: &Line) {
        self.memory[Self::place(line)].copy_from_slice(contents);
    }

    fn owner(&self, line: u32) -> Option<usize> {
        usize::from(self.owner[line as usize]).checked_sub(1)
    }

    #[must_use]
    pub fn is_dirty(&self, line: u32) -> bool {
        self.owner(line).is_some()
    }

    /// Takes note that `hart` stored `length` bytes at byte `start` of `line`, all within the line.
    /// The visible memory has them already.
    pub fn store(&mut self, hart: usize, line: u32, start: usize, length: usize) {
        let now = self.visible.read(line);
        // The fast path: a hart mostly stores to lines that it has stored to before.
        if let Some(latest) = self.harts[hart].touch_dirty(line) {
            let before = std::mem::replace(latest, now);
            return self.expect_no_device(line, &now, &before, start..start + length);
        }
        self.bring(hart, line);
        // Read only now: bringing the line in may have displaced and cleaned another line.
        let before = match self.owner(line) {
            Some(owner) => self.latest(owner, line),
            None => {
                // The line is clean, so all differences from memory, except the stored bytes, are a
                // device's.
                let before = with_part(&now, &self.memory(line), start, length);
                self.set_memory(line, &before);
                before
            }
        };
        self.expect_no_device(line, &now, &before, start..start + length);
        self.own(hart, line, now);
    }

    /// Compares the line with its contents before the store. If other bytes than the stored ones
    /// differ, a device has written the line back.
    fn expect_no_device(&mut self, line: u32, now: &Line, before: &Line, stored: Range<usize>) {
        let (start, length) = (stored.start, stored.len());
        if differs_by_device(now, &with_part(before, now, start, length)) {
            self.counts.device_writes += 1;
            let written_back = with_part(now, before, start, length);
            self.write_back(line, &written_back);
        }
    }

    pub fn load(&mut self, hart: usize, line: u32) {
        if self.harts[hart].touch(line) {
            return;
        }
        self.bring(hart, line);
        if self.owner(line).is_none() {
            let contents = self.visible.read(line);
            self.set_memory(line, &contents);
        }
    }

    fn bring(&mut self, hart: usize, line: u32) {
        if self.harts[hart].touch(line) {
            return;
        }
        if let Some(displaced) = self.harts[hart].allocate(line) {
            self.clean(displaced, FlushKind::Displaced);
        }
    }

    fn latest(&mut self, owner: usize, line: u32) -> Line {
        let way = self.harts[owner].find(line);
        way.expect("an owner holds its line").latest
    }

    /// Makes the line dirty in the cache of `hart`. The cache that had it dirty before drops it.
    fn own(&mut self, hart: usize, line: u32, latest: Line) {
        if let Some(before) = self.owner(line).filter(|before| *before != hart)
            && let Some(way) = self.harts[before].find(line)
        {
            way.is_dirty = false;
            way.line = None;
        }
        if let Some(way) = self.harts[hart].find(line) {
            way.is_dirty = true;
            way.latest = latest;
        }
        let owner = u16::try_from(hart + 1).expect("no more than 65535 harts");
        self.owner[line as usize] = owner;
    }

    /// Writes a line to memory. `contents` must be newer than those of its pending flushes.
    fn write_back(&mut self, line: u32, contents: &Line) {
        self.set_memory(line, contents);
        self.pending.supersede(line);
    }

    /// Writes a dirty line to memory, after which it is clean.
    fn clean(&mut self, line: u32, kind: FlushKind) {
        self.count(kind);
        let contents = self.visible.read(line);
        self.write_back(line, &contents);
        self.disown(line);
    }

    fn disown(&mut self, line: u32) {
        if let Some(owner) = self.owner(line)
            && let Some(way) = self.harts[owner].find(line)
        {
            way.is_dirty = false;
        }
        self.owner[line as usize] = 0;
    }

    fn count(&mut self, kind: FlushKind) {
        match kind {
            FlushKind::Line => self.counts.by_line += 1,
            FlushKind::Register => self.counts.by_register += 1,
            FlushKind::All => self.counts.all += 1,
            FlushKind::Displaced => self.counts.displaced += 1,
        }
    }

    /// `hart` flushes a line, from any cache that has it. The flush takes effect at the hart's next
    /// fence.
    pub fn flush_line(&mut self, hart: usize, line: u32) {
        self.flush_if_dirty(hart, line, FlushKind::Line);
    }

    /// Like [`flush_line`](Self::flush_line), by a store to a cache controller's register.
    pub fn flush_by_register(&mut self, hart: usize, line: u32) {
        self.flush_if_dirty(hart, line, FlushKind::Register);
    }

    fn flush_if_dirty(&mut self, hart: usize, line: u32, kind: FlushKind) {
        if self.is_dirty(line) {
            self.flush(hart, line, kind);
        }
    }

    /// `hart` flushes all of its own cache, at its next fence.
    pub fn flush_all(&mut self, hart: usize) {
        let lines: Vec<_> = self.harts[hart].dirty().map(|(line, _)| line).collect();
        for line in lines {
            self.flush(hart, line, FlushKind::All);
        }
    }

    fn flush(&mut self, hart: usize, line: u32, kind: FlushKind) {
        let contents = self.visible.read(line);
        self.pending.add(hart, line, kind, contents);
        // The flush includes devices' earlier writes to the line.
        if let Some(owner) = self.owner(line)
            && let Some(way) = self.harts[owner].find(line)
        {
            way.latest = contents;
        }
    }

    /// `hart` executed a fence: its pending flushes reach memory.
    pub fn fence(&mut self, hart: usize) {
        for (line, flush) in self.pending.complete(hart) {
            self.count(flush.kind);
            self.set_memory(line, &flush.contents);
            let Some(owner) = self.owner(line) else {
                continue;
            };
            // A store after the flush keeps the line dirty. A device's write after it does not.
            if self.latest(owner, line) == flush.contents {
                let contents = self.visible.read(line);
                self.set_memory(line, &contents);
                self.disown(line);
            }
        }
    }

    /// Ends the power: each dirty line gets memory's contents.
    pub fn power_off(self) -> Lost {
        let mut lost = Lost::default();
        for cache in &self.harts {
            let mut own = 0;
            for (line, latest) in cache.dirty() {
                let now = self.visible.read(line);
                let before = self.memory(line);
                if differs_by_device(&now, latest) {
                    lost.device_written += 1;
                } else {
                    self.visible.write(line, &before);
                    lost.unchanged += u64::from(now == before);
                    lost.lines.push(line);
                    own += 1;
                }
            }
            lost.by_hart.push(own);
        }
        lost
    }
}
