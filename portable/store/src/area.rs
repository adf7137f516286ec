use core::fmt;

use poorwill_image::{Expected, ImageKind};
use poorwill_medium::{Medium, MediumError, Window};
use poorwill_memory::Page;
use poorwill_vault::RollbackCounter;

use crate::choice::{NoImage, choose};
use crate::configuration::{Configuration, ConfigurationError};
use crate::error::StoreError;
use crate::layout::{CONFIGURATION_OFFSET, MIN_AREA_BYTES, record_offset, slot_bytes, slot_offset};
use crate::name::Name;
use crate::record::{SlotRecord, SlotStatus};
use crate::slot::{DiscardReason, SlotId, SlotState};

/// A sleep area, its records read.
///
/// Where the machine has a [`RollbackCounter`], that one decides: no image wakes that it
/// has not armed, whatever the records say. Without one, the records alone do.
pub struct Area<'a, M> {
    medium: Window<'a, M>,
    scratch: &'a mut Page,
    pub(crate) counter: Option<&'a mut dyn RollbackCounter>,
    pub(crate) slots: [SlotStatus; 2],
}

impl<M> fmt::Debug for Area<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

/// An image that may wake, found in an area. It must be admitted before it is
/// loaded ([`Area::admit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedImage {
    slot: SlotId,
    kind: ImageKind,
    generation: u64,
    header_checksum: u64,
    image_bytes: u64,
}

impl CommittedImage {
    /// The slot it lies in.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How often it may wake.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// What [`poorwill_image::open`] expects of the image.
    #[must_use]
    pub fn expected(&self) -> Expected {
        Expected {
            header_checksum: self.header_checksum,
            generation: self.generation,
            kind: self.kind,
        }
    }

    /// Bytes of the slot that the image takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }
}

impl<'a, M: Medium> Area<'a, M> {
    /// Reads the records of the area, one that cannot be read twice. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooSmall`], [`StoreError::Medium`].
    pub fn open(
        mut medium: Window<'a, M>,
        scratch: &'a mut Page,
        counter: Option<&'a mut dyn RollbackCounter>,
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
            // What cannot be read is given up: not for one read that went wrong.
            slots[slot.index()] = match read()? {
                SlotStatus::Unusable(_) => read()?,
                status => status,
            };
        }
        Ok(Area {
            medium,
            scratch,
            counter,
            slots,
        })
    }

    /// What the two records say.
    #[must_use]
    pub fn slots(&self) -> &[SlotStatus; 2] {
        &self.slots
    }

    /// Bytes that an image may have.
    #[must_use]
    pub fn slot_bytes(&self) -> u64 {
        slot_bytes(self.medium.capacity())
    }

    /// The image that wakes now, if any.
    ///
    /// # Errors
    ///
    /// Why none does; see [`NoImage`].
    pub fn newest(&self) -> Result<CommittedImage, NoImage> {
        let slot = choose(&self.slots, self.kept())?;
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

    /// How the machine is to sleep. An area that nobody has configured has the
    /// default.
    ///
    /// # Errors
    ///
    /// See [`ConfigurationError`]: the default counts.
    pub fn configuration(&mut self) -> Result<Configuration, ConfigurationError> {
        Configuration::read(&mut self.medium, self.scratch)
    }

    /// Keeps how the machine is to sleep, durably. Images stay as they are.
    ///
    /// # Errors
    ///
    /// [`StoreError::Delay`]: nothing was written. [`StoreError::Medium`]: the
    /// old configuration counts, or the new one.
    /// [`StoreError::ConfigurationNotKept`].
    pub fn configure(&mut self, configuration: &Configuration) -> Result<(), StoreError> {
        configuration.check()?;
        configuration.write(self.scratch);
        self.put_page(CONFIGURATION_OFFSET)?;
        if Configuration::parse(self.scratch) != Ok(*configuration) {
            return Err(StoreError::ConfigurationNotKept);
        }
        Ok(())
    }

    /// A slot as a medium: for looking at an image or loading it.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] when the medium has shrunk.
    pub fn slot(&mut self, slot: SlotId) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        let bytes = self.medium.capacity();
        Window::new(
            &mut self.medium,
            slot_offset(slot, bytes),
            slot_bytes(bytes),
        )
    }

    /// The snapshot that the counter knows, if there is one.
    pub(crate) fn kept(&self) -> Option<u64> {
        self.counter.as_ref().and_then(|counter| counter.kept())
    }

    /// Gives up every image there may be, and what cannot be read too: it might
    /// be readable next time. For a cold boot, before the next stage is
    /// started: once the OS has gone on with its disks, no earlier image may
    /// ever wake. Writes only when there is something to give up.
    ///
    /// # Errors
    ///
    /// The first failure; everything has been tried all the same. With a counter
    /// an image may still wake if both the flash and the medium failed, without
    /// one if the medium did.
    pub fn discard_all(&mut self, reason: DiscardReason) -> Result<(), StoreError> {
        // With a counter, its word and the record's each keep an image from
        // waking: what fails here keeps nothing else from being tried.
        let mut result = self.disarm();
        for slot in SlotId::BOTH {
            let reason = match self.slots[slot.index()] {
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

    /// Has the medium keep what it was given before, in whatever opening of the area.
    pub(crate) fn settle(&mut self) -> Result<(), MediumError> {
        self.medium.flush()
    }

    /// The numbers of the sleeps that the records tell of; 0 without one.
    pub(crate) fn generations(&self) -> [u64; 2] {
        self.slots
            .map(|slot| slot.record().map_or(0, |record| record.generation))
    }

    /// Gives a slot's record another state, durably. A record that could not be
    /// read is replaced by one that knows nothing but the state.
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
        self.put_record(slot, record)
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
        }
    }

    /// Writes a record, makes it durable, and reads it back.
    pub(crate) fn put_record(
        &mut self,
        slot: SlotId,
        record: SlotRecord,
    ) -> Result<(), StoreError> {
        record.write(self.scratch);
        self.put_page(record_offset(slot))?;
        if SlotRecord::parse(self.scratch) != Ok(record) {
            return Err(StoreError::NotKept(slot));
        }
        self.slots[slot.index()] = SlotStatus::Record(record);
        Ok(())
    }

    /// Writes the scratch page, makes it durable, and reads it back: a device
    /// that drops writes is found out where that is possible at all.
    fn put_page(&mut self, offset: u64) -> Result<(), MediumError> {
        let page = core::slice::from_mut(self.scratch);
        self.medium.write(offset, page)?;
        self.medium.flush()?;
        self.medium.read(offset, page)
    }
}
