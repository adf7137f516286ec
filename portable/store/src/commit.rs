//! Prepares a slot for an image, and commits the image.

use poorwill_image::{ImageKind, Saved};
use poorwill_medium::{Medium, MediumError, Window};
use poorwill_memory::PAGE_BYTES;

use crate::area::Area;
use crate::choice::snapshot;
use crate::error::{CommitError, StoreError};
use crate::name::Name;
use crate::parts::{Part, PartError, Parts};
use crate::record::{LAST_GENERATION, RecordFormat, SlotRecord};
use crate::slot::{BootAttempts, DiscardReason, SlotId, SlotState};

/// The purpose of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The image wakes once.
    Once,
    /// The image is a snapshot with this name, which wakes at every power-on.
    Snapshot(Name),
    /// The images are the parts of a set, which wakes once.
    Set,
}

impl Purpose {
    /// The kind of image for this purpose.
    #[must_use]
    pub fn kind(self) -> ImageKind {
        match self {
            Purpose::Once | Purpose::Set => ImageKind::Once,
            Purpose::Snapshot(_) => ImageKind::Snapshot,
        }
    }

    /// The format of the record for this purpose.
    #[must_use]
    pub fn format(self) -> RecordFormat {
        match self {
            Purpose::Once | Purpose::Snapshot(_) => RecordFormat::Image,
            Purpose::Set => RecordFormat::Set,
        }
    }
}

/// The proof that an image is committed: the machine may be powered off.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    generation: u64,
    older: Result<(), StoreError>,
}

impl Committed {
    /// The number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the replaced snapshot, if any, was discarded. If not, and there is no
    /// vault, the old snapshot would wake if the new record were lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn older(&self) -> Result<(), StoreError> {
        self.older
    }
}

/// A slot that is ready for an image, or for the parts of a set.
#[derive(Debug)]
pub struct OpenSlot<'b, 'a, M> {
    area: &'b mut Area<'a, M>,
    slot: SlotId,
    generation: u64,
    purpose: Purpose,
    parts: Parts,
}

impl<'a, M: Medium> Area<'a, M> {
    /// Prepares a slot for a new image. First discards each older image durably, except
    /// the machine's snapshot.
    ///
    /// # Errors
    ///
    /// [`StoreError::OtherPurpose`]: nothing was written. [`StoreError::Medium`],
    /// [`StoreError::NotKept`]: an older image may still be committed.
    pub fn begin(&mut self, purpose: Purpose) -> Result<OpenSlot<'_, 'a, M>, StoreError> {
        if purpose.format() != self.format {
            return Err(StoreError::OtherPurpose(purpose.format()));
        }
        self.discard_all(DiscardReason::NewSleep)?;
        let generation = self.next_generation()?;
        let generations = self.generations();
        let slot = match snapshot(&self.slots, self.kept()) {
            Some(kept) => kept.other(),
            // This keeps the newer record, with its report of the last sleep.
            None if generations[0] > generations[1] => SlotId::Second,
            None => SlotId::First,
        };
        // This snapshot is older than the machine's.
        if self.slots[slot.index()].snapshot().is_some() {
            self.change_state(slot, SlotState::Discarded(DiscardReason::NewSleep))?;
        }
        // A failed deletion may have left a record that is not durable. The image is about to be
        // overwritten, so its deletion must be durable.
        let deleted = SlotState::Discarded(DiscardReason::Deleted);
        if (self.slots[slot.index()].record()).is_some_and(|record| record.state == deleted) {
            self.settle()?;
        }
        Ok(OpenSlot {
            area: self,
            slot,
            generation,
            purpose,
            parts: Parts::NONE,
        })
    }

    /// The number of a new sleep: above the counter's, if there is one, and above the
    /// records'. If a record is ahead of the counter, the records' numbers start again,
    /// so a foreign disk cannot use up the machine's numbers.
    fn next_generation(&mut self) -> Result<u64, StoreError> {
        let newest = |area: &Self| area.generations().into_iter().fold(0, u64::max);
        let last = match &self.counter {
            Some(counter) => counter.generation(),
            None => LAST_GENERATION - 1,
        };
        if newest(self) > last {
            self.restart_numbers()?;
        }
        match &mut self.counter {
            Some(counter) => Ok(counter.reserve(0)?),
            None => Ok(newest(self) + 1),
        }
    }

    /// Resets the numbers in the records. There is no image now, so a power cut between the two
    /// writes does no harm.
    fn restart_numbers(&mut self) -> Result<(), StoreError> {
        for slot in SlotId::BOTH {
            let record = SlotRecord {
                state: SlotState::Discarded(DiscardReason::NewSleep),
                ..self.new_record(slot, 0)
            };
            self.put_record(slot, &record)?;
        }
        Ok(())
    }

    /// Revokes the counter's permission for the image of `generation`, made for
    /// `purpose`, to wake.
    fn take_back(&mut self, purpose: Purpose, generation: u64) -> Result<(), StoreError> {
        match (&mut self.counter, purpose) {
            (Some(counter), Purpose::Snapshot(_)) => {
                let older = counter.kept().filter(|kept| *kept != generation);
                Ok(counter.keep(older)?)
            }
            _ => self.disarm(),
        }
    }

    /// Discards the snapshot that the one in `slot` replaces.
    fn discard_older(&mut self, slot: SlotId) -> Result<(), StoreError> {
        let older = slot.other();
        match self.slots[older.index()].snapshot() {
            Some(_) => self.change_state(older, SlotState::Discarded(DiscardReason::NewSleep)),
            None => Ok(()),
        }
    }

    /// Writes the record of an image, then arms the counter. The last of these two steps
    /// commits the image.
    fn commit_record(&mut self, slot: SlotId, record: &SlotRecord) -> Result<(), StoreError> {
        self.put_record(slot, record)?;
        match &mut self.counter {
            Some(counter) if matches!(record.state, SlotState::Snapshot(_)) => {
                Ok(counter.keep(Some(record.generation))?)
            }
            Some(counter) => Ok(counter.arm(record.generation)?),
            None => Ok(()),
        }
    }
}

impl<'a, M: Medium> OpenSlot<'_, 'a, M> {
    /// The number of this sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The slot as a medium for the image, or what the parts so far leave of it for the next one.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] if the medium has shrunk.
    pub fn medium(&mut self) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        self.area.rest(self.slot, self.parts.end())
    }

    /// Adds a part: the image that was saved into [`medium`](Self::medium) since the part before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Part`]. [`StoreError::Stale`]: the image is of another sleep or kind.
    pub fn add(&mut self, name_hash: u64, saved: &Saved) -> Result<(), StoreError> {
        self.check(saved, RecordFormat::Set)?;
        let part = Part {
            name_hash,
            first_page: self.parts.end().div_ceil(PAGE_BYTES),
            bytes: saved.image_bytes(),
            header_checksum: saved.header_checksum(),
            failure: None,
        };
        Ok(self.parts.push(part, self.area.slot_bytes())?)
    }

    /// Commits the saved image: once its record is durable, this image wakes. The record
    /// keeps `sleep_ms`, the duration of the sleep, for later reports.
    ///
    /// # Errors
    ///
    /// See [`CommitError`].
    pub fn commit(self, saved: &Saved, sleep_ms: u32) -> Result<Committed, CommitError> {
        self.check(saved, RecordFormat::Image)
            .map_err(CommitError::NotCommitted)?;
        let (state, name) = match self.purpose {
            Purpose::Once | Purpose::Set => (SlotState::Committed, Name::NONE),
            Purpose::Snapshot(name) => (SlotState::Snapshot(BootAttempts::default()), name),
        };
        let record = SlotRecord {
            state,
            name,
            header_checksum: saved.header_checksum(),
            image_bytes: saved.image_bytes(),
            sleep_ms,
            ..self.area.new_record(self.slot, self.generation)
        };
        self.commit_record(&record)
    }

    /// Commits the set of all added parts, as [`commit`](Self::commit) does an image: all of them
    /// wake, or none.
    ///
    /// # Errors
    ///
    /// See [`CommitError`]. A set without parts is not committed.
    pub fn commit_set(self, sleep_ms: u32) -> Result<Committed, CommitError> {
        if self.parts == Parts::NONE {
            let error = PartError::Absent(0).into();
            return Err(CommitError::NotCommitted(error));
        }
        let record = SlotRecord {
            image_bytes: self.parts.end(),
            sleep_ms,
            parts: Some(self.parts),
            ..self.area.new_record(self.slot, self.generation)
        };
        self.commit_record(&record)
    }

    /// Checks that an image is of this sleep, and is for a record in `format`.
    fn check(&self, saved: &Saved, format: RecordFormat) -> Result<(), StoreError> {
        let is_right = saved.generation() == self.generation
            && saved.kind() == self.purpose.kind()
            && format == self.purpose.format();
        is_right.then_some(()).ok_or(StoreError::Stale(self.slot))
    }

    fn commit_record(self, record: &SlotRecord) -> Result<Committed, CommitError> {
        let OpenSlot {
            area,
            slot,
            generation,
            purpose,
            ..
        } = self;
        let Err(error) = area.commit_record(slot, record) else {
            let older = match purpose {
                Purpose::Once | Purpose::Set => Ok(()),
                Purpose::Snapshot(_) => area.discard_older(slot),
            };
            return Ok(Committed { generation, older });
        };
        // It is unknown whether the record was written and the counter armed. The OS may continue
        // only if it is certain that there is no image.
        let disarmed = area.counter.is_some() && area.take_back(purpose, generation).is_ok();
        let undone = SlotRecord {
            state: SlotState::Discarded(DiscardReason::CommitFailed),
            ..*record
        };
        let discarded = area.put_record(slot, &undone).is_ok();
        if disarmed || discarded {
            Err(CommitError::NotCommitted(error))
        } else {
            Err(CommitError::InDoubt(error))
        }
    }
}
