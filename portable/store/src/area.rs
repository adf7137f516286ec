use core::fmt;

use poorwill_image::{Expected, ImageKind};
use poorwill_medium::{Medium, MediumError, Window};
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_vault::RollbackCounter;

use crate::choice::{NoImage, choose};
use crate::configuration::{Configuration, ConfigurationError};
use crate::error::StoreError;
use crate::layout::{CONFIGURATION_OFFSET, MIN_AREA_BYTES, record_offset, slot_bytes, slot_offset};
use crate::name::Name;
use crate::parts::{Part, PartError, Parts};
use crate::record::{RecordFormat, SlotRecord, SlotStatus};
use crate::slot::{DiscardReason, SlotId, SlotState};

/// An open sleep area, with its two records in memory.
///
/// If the machine has a [`RollbackCounter`], an image wakes only if the counter has armed
/// it, even if its record is committed. Without a counter, the records decide.
pub struct Area<'a, M> {
    medium: Window<'a, M>,
    scratch: &'a mut Page,
    pub(crate) counter: Option<&'a mut dyn RollbackCounter>,
    pub(crate) format: RecordFormat,
    pub(crate) slots: [SlotStatus; 2],
}

impl<M> fmt::Debug for Area<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

/// An image, or a set, that may wake. [`Area::admit`] must admit it before it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedImage {
    slot: SlotId,
    kind: ImageKind,
    generation: u64,
    header_checksum: u64,
    image_bytes: u64,
}

impl CommittedImage {
    /// The image's slot.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// The number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the image may wake once or at every power-on.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// The header that [`poorwill_image::open`] must find. Each part of a set has
    /// [its own](Part::expected).
    #[must_use]
    pub fn expected(&self) -> Expected {
        Expected {
            header_checksum: self.header_checksum,
            generation: self.generation,
            kind: self.kind,
        }
    }

    /// The bytes of the slot that the image, or the set, takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }
}

impl<'a, M: Medium> Area<'a, M> {
    /// Reads the area's records. An unusable record is read a second time. Nothing is
    /// written. `format` is that of the machine's records.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooSmall`], [`StoreError::Medium`].
    pub fn open(
        mut medium: Window<'a, M>,
        scratch: &'a mut Page,
        counter: Option<&'a mut dyn RollbackCounter>,
        format: RecordFormat,
    ) -> Result<Self, StoreError> {
        let bytes = medium.capacity();
        if bytes < MIN_AREA_BYTES {
            return Err(StoreError::TooSmall { bytes });
        }
        let mut slots = [SlotStatus::New; 2];
        for slot in SlotId::BOTH {
            let mut read = || -> Result<_, MediumError> {
                medium.read(record_offset(slot), core::slice::from_mut(scratch))?;
                let (offset, bytes) = (slot_offset(slot, bytes), slot_bytes(bytes));
                Ok(SlotStatus::read(scratch, offset, bytes))
            };
            // An unusable record is discarded later, so one failed read must not decide.
            let status = &mut slots[slot.index()];
            *status = read()?;
            if matches!(status, SlotStatus::Unusable(_)) {
                *status = read()?;
            }
        }
        Ok(Area {
            medium,
            scratch,
            counter,
            format,
            slots,
        })
    }

    /// The contents of the two records.
    #[must_use]
    pub fn slots(&self) -> &[SlotStatus; 2] {
        &self.slots
    }

    /// The maximal length of an image in bytes.
    #[must_use]
    pub fn slot_bytes(&self) -> u64 {
        slot_bytes(self.medium.capacity())
    }

    /// The image that may wake now, if any.
    ///
    /// # Errors
    ///
    /// The reason why there is no image; see [`NoImage`].
    pub fn newest(&self) -> Result<CommittedImage, NoImage> {
        self.newest_in(self.format)
    }

    /// The image that would wake now on a machine with records in `format`, if any.
    ///
    /// # Errors
    ///
    /// As [`Area::newest`].
    pub fn newest_in(&self, format: RecordFormat) -> Result<CommittedImage, NoImage> {
        let slot = choose(&self.slots, self.kept(), format)?;
        let record = self.slots[slot.index()].record().ok_or(NoImage::None)?;
        let kind = match record.state {
            SlotState::Snapshot(_) => ImageKind::Snapshot,
            _ => ImageKind::Once,
        };
        Ok(CommittedImage {
            slot,
            kind,
            generation: record.generation,
            header_checksum: record.header_checksum,
            image_bytes: record.image_bytes,
        })
    }

    /// The sleep configuration; the default if it was never set.
    ///
    /// # Errors
    ///
    /// See [`ConfigurationError`]: use the default.
    pub fn configuration(&mut self) -> Result<Configuration, ConfigurationError> {
        Configuration::read(&mut self.medium, self.scratch)
    }

    /// Stores the sleep configuration durably. Images are not affected.
    ///
    /// # Errors
    ///
    /// [`StoreError::Delay`]: nothing was written. [`StoreError::Medium`]: either the old
    /// or the new configuration is valid. [`StoreError::ConfigurationNotKept`].
    pub fn configure(&mut self, configuration: &Configuration) -> Result<(), StoreError> {
        configuration.check()?;
        configuration.write(self.scratch);
        self.put_page(CONFIGURATION_OFFSET)?;
        if Configuration::parse(self.scratch) != Ok(*configuration) {
            return Err(StoreError::ConfigurationNotKept);
        }
        Ok(())
    }

    /// A slot as a medium, for reading or loading its image.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] if the medium has shrunk.
    pub fn slot(&mut self, slot: SlotId) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        self.rest(slot, 0)
    }

    /// The parts of the set in `slot`, in the order of their domains' wakes. An image has none.
    #[must_use]
    pub fn parts(&self, slot: SlotId) -> &[Part] {
        self.slots[slot.index()]
            .record()
            .map_or(&[], SlotRecord::parts)
    }

    /// A part of the set in `slot` as a medium, for reading or loading its image.
    ///
    /// # Errors
    ///
    /// [`PartError::Absent`], and [`MediumError::OutOfRange`] if the medium has shrunk.
    pub fn part(
        &mut self,
        slot: SlotId,
        index: usize,
    ) -> Result<Window<'_, Window<'a, M>>, StoreError> {
        let part = self.parts(slot).get(index).copied();
        let part = part.ok_or(PartError::Absent(index))?;
        let start = part.first_page * PAGE_BYTES;
        Ok(self.within(slot, start, part.bytes.next_multiple_of(PAGE_BYTES))?)
    }

    /// The part of a slot after its first `taken` bytes, from the next page on.
    pub(crate) fn rest(
        &mut self,
        slot: SlotId,
        taken: u64,
    ) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        let start = taken.next_multiple_of(PAGE_BYTES);
        let length = self.slot_bytes().saturating_sub(start);
        self.within(slot, start, length)
    }

    fn within(
        &mut self,
        slot: SlotId,
        start: u64,
        length: u64,
    ) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        let slot = slot_offset(slot, self.medium.capacity());
        Window::new(&mut self.medium, slot + start, length)
    }

    /// The generation of the snapshot that the counter permits, if any.
    pub(crate) fn kept(&self) -> Option<u64> {
        self.counter.as_ref().and_then(|counter| counter.kept())
    }

    /// Discards each image, and each unreadable record, which might be readable at the next start.
    /// A cold boot calls this before it starts the next stage: once the OS has written to its
    /// disks, no earlier image may wake. Writes only if there is something to discard.
    ///
    /// # Errors
    ///
    /// The first failure; all other steps were tried. With a counter, an image may still
    /// wake only if both the flash and the medium failed. Without a counter, it may if
    /// the medium failed.
    pub fn discard_all(&mut self, reason: DiscardReason) -> Result<(), StoreError> {
        // The counter and the record each keep an image from waking. So if one write fails, the
        // other is still tried.
        let mut result = self.disarm();
        for slot in SlotId::BOTH {
            let reason = match &self.slots[slot.index()] {
                SlotStatus::Unusable(_) => DiscardReason::Unreadable,
                status if status.committed().is_some() => reason,
                _ => continue,
            };
            result = result.and(self.change_state(slot, SlotState::Discarded(reason)));
        }
        result
    }

    pub(crate) fn disarm(&mut self) -> Result<(), StoreError> {
        match &mut self.counter {
            Some(counter) => Ok(counter.disarm()?),
            None => Ok(()),
        }
    }

    /// Flushes writes from earlier opens of the area, too.
    pub(crate) fn settle(&mut self) -> Result<(), MediumError> {
        self.medium.flush()
    }

    /// The generations of the two records; 0: no record.
    pub(crate) fn generations(&self) -> [u64; 2] {
        self.slots
            .map(|slot| slot.record().map_or(0, |record| record.generation))
    }

    /// Gives a slot's record another state, durably. An unreadable record is replaced by
    /// a new one with generation 0.
    pub(crate) fn change_state(
        &mut self,
        slot: SlotId,
        state: SlotState,
    ) -> Result<(), StoreError> {
        let record = self.slots[slot.index()].record();
        let record = match record {
            Some(record) => SlotRecord { state, ..*record },
            None => SlotRecord {
                state,
                ..self.new_record(slot, 0)
            },
        };
        self.put_record(slot, &record)
    }

    pub(crate) fn new_record(&self, slot: SlotId, generation: u64) -> SlotRecord {
        let bytes = self.medium.capacity();
        SlotRecord {
            state: SlotState::Committed,
            generation,
            slot_offset: slot_offset(slot, bytes),
            slot_bytes: slot_bytes(bytes),
            header_checksum: 0,
            image_bytes: 0,
            sleep_ms: 0,
            name: Name::NONE,
            parts: match self.format {
                RecordFormat::Image => None,
                RecordFormat::Set => Some(Parts::NONE),
            },
        }
    }

    /// Writes a record, makes it durable, and reads it back.
    pub(crate) fn put_record(
        &mut self,
        slot: SlotId,
        record: &SlotRecord,
    ) -> Result<(), StoreError> {
        record.write(self.scratch);
        self.put_page(record_offset(slot))?;
        if SlotRecord::parse(self.scratch).as_ref() != Ok(record) {
            return Err(StoreError::NotKept(slot));
        }
        self.slots[slot.index()] = SlotStatus::Record(*record);
        Ok(())
    }

    /// Writes the scratch page, flushes it, and reads it back, to detect a device that
    /// drops writes.
    fn put_page(&mut self, offset: u64) -> Result<(), MediumError> {
        let page = core::slice::from_mut(self.scratch);
        self.medium.write(offset, page)?;
        self.medium.flush()?;
        self.medium.read(offset, page)
    }
}
