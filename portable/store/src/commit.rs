//! Making room for an image, and committing it.

use poorwill_image::{ImageKind, Saved};
use poorwill_medium::{Medium, MediumError, Window};

use crate::area::Area;
use crate::choice::snapshot;
use crate::error::{CommitError, StoreError};
use crate::name::Name;
use crate::record::{LAST_GENERATION, SlotRecord};
use crate::slot::{BootAttempts, DiscardReason, SlotId, SlotState};

/// What a sleep is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To go on where the OS was, once.
    Once,
    /// To keep a snapshot of this name, which wakes at every power-on.
    Snapshot(Name),
}

impl Purpose {
    /// The kind of image that serves it.
    #[must_use]
    pub fn kind(self) -> ImageKind {
        match self {
            Purpose::Once => ImageKind::Once,
            Purpose::Snapshot(_) => ImageKind::Snapshot,
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
    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the snapshot that this one replaces was given up, if there was one. Without
    /// a vault it wakes in this one's place, should the record of this one be lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn older(&self) -> Result<(), StoreError> {
        self.older
    }
}

/// A slot that an image can be saved into.
#[derive(Debug)]
pub struct OpenSlot<'b, 'a, M> {
    area: &'b mut Area<'a, M>,
    slot: SlotId,
    generation: u64,
    purpose: Purpose,
}

impl<'a, M: Medium> Area<'a, M> {
    /// Makes room for a new image. Any older one is given up, durably, first,
    /// but for the machine's snapshot.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`]; an older image may then
    /// be committed still.
    pub fn begin(&mut self, purpose: Purpose) -> Result<OpenSlot<'_, 'a, M>, StoreError> {
        self.discard_all(DiscardReason::NewSleep)?;
        let generation = self.next_generation()?;
        let generations = self.generations();
        let slot = match snapshot(&self.slots, self.kept()) {
            Some(kept) => kept.other(),
            // The slot with the newer record keeps what it tells of the last sleep.
            None if generations[0] > generations[1] => SlotId::Second,
            None => SlotId::First,
        };
        // A snapshot older than the machine's.
        if self.slots[slot.index()].snapshot().is_some() {
            self.change_state(slot, SlotState::Discarded(DiscardReason::NewSleep))?;
        }
        // A deletion that failed may have left a record that is not durable, and the
        // image is about to be written over.
        let deleted = SlotState::Discarded(DiscardReason::Deleted);
        if (self.slots[slot.index()].record()).is_some_and(|record| record.state == deleted) {
            self.settle()?;
        }
        Ok(OpenSlot {
            area: self,
            slot,
            generation,
            purpose,
        })
    }

    /// The number of a new sleep: above the counter's, if there is one, and above
    /// those of the records. A record on a disk cannot use up a machine's
    /// numbers: where it is ahead of the counter, the records forget theirs.
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

    /// Lets the records forget their numbers. There is no image when this is
    /// called, so a power cut in between does no harm.
    fn restart_numbers(&mut self) -> Result<(), StoreError> {
        for slot in SlotId::BOTH {
            let record = SlotRecord {
                state: SlotState::Discarded(DiscardReason::NewSleep),
                ..self.new_record(slot, 0)
            };
            self.put_record(slot, record)?;
        }
        Ok(())
    }

    /// Has the counter not let the image of `generation` wake, which was made for
    /// `purpose`.
    fn take_back(&mut self, purpose: Purpose, generation: u64) -> Result<(), StoreError> {
        match (&mut self.counter, purpose) {
            (Some(counter), Purpose::Snapshot(_)) => {
                let older = counter.kept().filter(|kept| *kept != generation);
                Ok(counter.keep(older)?)
            }
            _ => self.disarm(),
        }
    }

    /// Gives up the snapshot that the one in `slot` replaces.
    fn give_up_older(&mut self, slot: SlotId) -> Result<(), StoreError> {
        let older = slot.other();
        match self.slots[older.index()].snapshot() {
            Some(_) => self.change_state(older, SlotState::Discarded(DiscardReason::NewSleep)),
            None => Ok(()),
        }
    }

    /// Writes the record of a committed image, and arms the counter behind it: of
    /// two steps, the last one is the commit.
    fn commit_record(&mut self, slot: SlotId, record: SlotRecord) -> Result<(), StoreError> {
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
    /// Number of this sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The slot, to save into.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] when the medium has shrunk.
    pub fn medium(&mut self) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        self.area.slot(self.slot)
    }

    /// Commits the saved image: from the moment that its record is durable, it
    /// is the one that wakes. `sleep_ms` is how long the sleep has taken, for those
    /// who ask later.
    ///
    /// # Errors
    ///
    /// See [`CommitError`].
    pub fn commit(self, saved: &Saved, sleep_ms: u32) -> Result<Committed, CommitError> {
        let OpenSlot {
            area,
            slot,
            generation,
            purpose,
        } = self;
        if saved.generation() != generation || saved.kind() != purpose.kind() {
            return Err(CommitError::NotCommitted(StoreError::Stale(slot)));
        }
        let (state, name) = match purpose {
            Purpose::Once => (SlotState::Committed, Name::NONE),
            Purpose::Snapshot(name) => (SlotState::Snapshot(BootAttempts::default()), name),
        };
        let record = SlotRecord {
            state,
            name,
            header_checksum: saved.header_checksum(),
            image_bytes: saved.image_bytes(),
            sleep_ms,
            ..area.new_record(slot, generation)
        };
        let Err(error) = area.commit_record(slot, record) else {
            let older = match purpose {
                Purpose::Once => Ok(()),
                Purpose::Snapshot(_) => area.give_up_older(slot),
            };
            return Ok(Committed { generation, older });
        };
        // The record may be on the medium or not, and the counter armed or not.
        // The OS can only go on if there is certainly no image.
        let disarmed = area.counter.is_some() && area.take_back(purpose, generation).is_ok();
        let undone = SlotRecord {
            state: SlotState::Discarded(DiscardReason::CommitFailed),
            ..record
        };
        let discarded = area.put_record(slot, undone).is_ok();
        if disarmed || discarded {
            Err(CommitError::NotCommitted(error))
        } else {
            Err(CommitError::InDoubt(error))
        }
    }
}
