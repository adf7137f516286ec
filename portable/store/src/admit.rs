//! Letting an image be loaded, and what its load came to.

use poorwill_image::ImageKind;
use poorwill_medium::Medium;

use crate::area::{Area, CommittedImage};
use crate::error::StoreError;
use crate::failure::Failure;
use crate::slot::{SlotId, SlotState};

/// The proof that an image may be loaded now. Unless it is a snapshot it is
/// durably marked as consumed, and will not be loaded again.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted {
    slot: SlotId,
    generation: u64,
}

impl Admitted {
    /// The slot that the image lies in.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<M: Medium> Area<'_, M> {
    /// Lets an image be loaded: marks it as consumed, durably, or counts the try
    /// of a snapshot. Before this returns, not a byte of it may be put where the
    /// OS was. For a snapshot whose OS has been well before, or that may be tried
    /// for ever, nothing is written, unless something else is left to give up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] when the image may not wake any more;
    /// [`StoreError::PutBack`], [`StoreError::Spent`],
    /// [`StoreError::NotKeptHere`] when the machine's counter does not let it
    /// wake; [`StoreError::Medium`], [`StoreError::NotKept`],
    /// [`StoreError::Vault`]: the image may be committed still, see
    /// [`Area::discard_all`].
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

    /// Whether the machine's counter, if it has one, lets the image of
    /// `generation` wake.
    ///
    /// # Errors
    ///
    /// [`StoreError::PutBack`], [`StoreError::Spent`],
    /// [`StoreError::NotKeptHere`]: it does not.
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

    /// Notes why the wake of an admitted image failed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    // The proof is used up: the image is not to be loaded behind its failure.
    #[allow(clippy::needless_pass_by_value, reason = "the proof is used up")]
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

    /// The latest wake, if it failed and no boot has named that yet. A failure
    /// that the machine has slept after is over: it must not keep the newer image
    /// from waking.
    #[must_use]
    pub fn unreported_failure(&self) -> Option<(SlotId, Failure)> {
        let generations = self.generations();
        SlotId::BOTH.into_iter().find_map(|slot| {
            let record = self.slots[slot.index()].record()?;
            match record.state {
                SlotState::Consumed {
                    failure: Some(failure),
                    reported: false,
                } if record.generation >= generations[slot.other().index()] => {
                    Some((slot, failure))
                }
                _ => None,
            }
        })
    }

    /// Notes that the failure in `slot` has been named. Without one, nothing
    /// happens.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn mark_reported(&mut self, slot: SlotId) -> Result<(), StoreError> {
        match self.slots[slot.index()].record().map(|record| record.state) {
            Some(SlotState::Consumed {
                failure: Some(failure),
                reported: false,
            }) => {
                let state = SlotState::Consumed {
                    failure: Some(failure),
                    reported: true,
                };
                self.change_state(slot, state)
            }
            _ => Ok(()),
        }
    }
}
