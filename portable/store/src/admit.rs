//! Admits an image to be loaded, and records the result of its wake.

use poorwill_image::ImageKind;
use poorwill_medium::Medium;

use crate::area::{Area, CommittedImage};
use crate::error::StoreError;
use crate::failure::Failure;
use crate::parts::{Part, PartError};
use crate::record::SlotRecord;
use crate::slot::{SlotId, SlotState};

/// The proof that an image may be loaded now. Unless it is a snapshot, it is durably
/// marked as consumed, and will not be loaded again.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted {
    slot: SlotId,
    generation: u64,
}

impl Admitted {
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
}

impl<M: Medium> Area<'_, M> {
    /// Admits an image to be loaded: marks it as consumed, durably, or counts the try of
    /// a snapshot. Load no byte of it into OS memory before this returns. Nothing is
    /// written for a snapshot that woke well before, or that has unlimited tries, unless
    /// another image must be discarded.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`]: the image may not wake any more. [`StoreError::PutBack`],
    /// [`StoreError::Spent`] or [`StoreError::NotKeptHere`]: the machine's counter
    /// forbids the wake. After [`StoreError::Medium`], [`StoreError::NotKept`] or
    /// [`StoreError::Vault`] the image may still be committed, see [`Area::discard_all`].
    pub fn admit(&mut self, image: &CommittedImage) -> Result<Admitted, StoreError> {
        if self.newest() != Ok(*image) {
            return Err(StoreError::Stale(image.slot()));
        }
        self.may_wake(image.kind(), image.generation())?;
        match image.kind() {
            ImageKind::Once => self.consume(image.slot())?,
            ImageKind::Snapshot => self.begin_try()?,
        }
        Ok(Admitted {
            slot: image.slot(),
            generation: image.generation(),
        })
    }

    fn consume(&mut self, slot: SlotId) -> Result<(), StoreError> {
        self.disarm()?;
        let state = SlotState::Consumed {
            failure: None,
            reported: false,
        };
        self.change_state(slot, state)
    }

    /// Checks that the machine's counter, if it has one, permits the image of
    /// `generation` to wake.
    ///
    /// # Errors
    ///
    /// [`StoreError::PutBack`], [`StoreError::Spent`], [`StoreError::NotKeptHere`]: it
    /// does not.
    pub fn may_wake(&self, kind: ImageKind, generation: u64) -> Result<(), StoreError> {
        let Some(counter) = &self.counter else {
            return Ok(());
        };
        if kind == ImageKind::Snapshot {
            return if counter.kept() == Some(generation) {
                Ok(())
            } else {
                Err(StoreError::NotKeptHere(generation))
            };
        }
        if counter.armed() == Some(generation) {
            return Ok(());
        }
        let (image, latest) = (generation, counter.generation());
        Err(if image < latest {
            StoreError::PutBack { image, latest }
        } else {
            StoreError::Spent(image)
        })
    }

    /// Records why the wake of an admitted image failed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    // The image is passed by value, so that the caller cannot load it again.
    #[allow(clippy::needless_pass_by_value, reason = "the proof is consumed")]
    pub fn record_failure(&mut self, image: Admitted, failure: Failure) -> Result<(), StoreError> {
        if self.slots[image.slot.index()].snapshot().is_some() {
            return self.snapshot_failed(failure);
        }
        let state = SlotState::Consumed {
            failure: Some(failure),
            reported: false,
        };
        self.change_state(image.slot, state)
    }

    /// Records why a domain of an admitted set did not wake. `index` is that of its part. The other
    /// parts are not affected.
    ///
    /// # Errors
    ///
    /// [`StoreError::Part`], [`StoreError::Stale`]: nothing was written.
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn record_part_failure(
        &mut self,
        set: &Admitted,
        index: usize,
        failure: Failure,
    ) -> Result<(), StoreError> {
        let record = self.slots[set.slot.index()].record();
        let (record, whole) = record
            .filter(|record| record.generation == set.generation)
            .and_then(|record| match record.state {
                SlotState::Consumed { failure, .. } => Some((record, failure)),
                _ => None,
            })
            .ok_or(StoreError::Stale(set.slot))?;
        let mut parts = record.parts.ok_or(PartError::Absent(index))?;
        parts.fail(index, failure)?;
        let record = SlotRecord {
            state: SlotState::Consumed {
                failure: whole,
                reported: false,
            },
            parts: Some(parts),
            ..*record
        };
        self.put_record(set.slot, &record)
    }

    /// The failure of the latest wake, if no boot has reported it yet. A failure before a newer
    /// sleep does not count: it must not keep the newer image from waking.
    #[must_use]
    pub fn unreported_failure(&self) -> Option<(SlotId, Failure)> {
        SlotId::BOTH.into_iter().find_map(|slot| {
            let (_, failure) = self.unreported(slot)?;
            Some((slot, failure?))
        })
    }

    /// The failures of the latest wake's domains that no boot has reported yet: slot, hash of the
    /// domain's name, failure. As with [`Area::unreported_failure`], a newer sleep ends them.
    pub fn unreported_part_failures(&self) -> impl Iterator<Item = (SlotId, u64, Failure)> {
        SlotId::BOTH.into_iter().flat_map(|slot| {
            let record = self.unreported(slot).map(|(record, _)| record);
            let parts = record.map_or(&[][..], SlotRecord::parts);
            let failed = move |part: &Part| Some((slot, part.name_hash, part.failure?));
            parts.iter().filter_map(failed)
        })
    }

    /// The record in `slot`, if it is the latest wake's and no boot has reported its failures; and
    /// the failure of the whole wake.
    fn unreported(&self, slot: SlotId) -> Option<(&SlotRecord, Option<Failure>)> {
        let record = self.slots[slot.index()].record()?;
        match record.state {
            SlotState::Consumed {
                failure,
                reported: false,
            } if record.generation >= self.generations()[slot.other().index()] => {
                Some((record, failure))
            }
            _ => None,
        }
    }

    /// Records that each failure in `slot` has been reported. Does nothing if there is no
    /// failure.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn mark_reported(&mut self, slot: SlotId) -> Result<(), StoreError> {
        let Some(record) = self.slots[slot.index()].record() else {
            return Ok(());
        };
        let part_failed = record.parts().iter().any(|part| part.failure.is_some());
        match record.state {
            SlotState::Consumed {
                failure,
                reported: false,
            } if failure.is_some() || part_failed => {
                let state = SlotState::Consumed {
                    failure,
                    reported: true,
                };
                self.change_state(slot, state)
            }
            _ => Ok(()),
        }
    }
}
