use core::fmt;

use poorwill_image::{Expected, ImageKind, Saved};
use poorwill_medium::{Medium, MediumError, Window};
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_vault::{Guard, VaultError};
use thiserror::Error;

use crate::choice::{NoImage, choose, snapshot};
use crate::configuration::{Configuration, ConfigurationError, DelayError};
use crate::failure::Failure;
use crate::name::Name;
use crate::record::{
    DiscardReason, LAST_GENERATION, SlotId, SlotRecord, SlotState, SlotStatus, Standing,
};

/// Bytes of the smallest sleep area: its head, and two slots that hold an image
/// of hardly anything.
pub const MIN_AREA_BYTES: u64 = 5 << 20;

/// What goes wrong with a sleep area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The partition is too small to be a sleep area.
    #[error("the sleep area has {bytes} bytes, at least {MIN_AREA_BYTES} are needed")]
    TooSmall {
        /// Bytes of the partition.
        bytes: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The device said that it kept a record, and did not.
    #[error("the record of slot {0} reads back otherwise than it was written")]
    NotKept(SlotId),
    /// A configuration with a delay out of range; nothing was written.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// The device said that it kept the configuration, and did not.
    #[error("the configuration reads back otherwise than it was written")]
    ConfigurationNotKept,
    /// The image is not committed any more: a caller's fault.
    #[error("the image in slot {0} is not committed any more")]
    Stale(SlotId),
    /// The vault failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The machine has slept since: somebody has put an older image back.
    #[error("sleep {image} is over: the latest is sleep {latest}, so the image was put back")]
    PutBack {
        /// The image's generation.
        image: u64,
        /// The generation of the machine's latest sleep.
        latest: u64,
    },
    /// The vault knows the sleep, and that its image is not to wake.
    #[error("sleep {0} was cut short or is over: its image may not wake any more")]
    Spent(u64),
    /// The machine keeps another snapshot, or none.
    #[error(
        "snapshot {0} is not the one that this machine keeps: it was put back or is of another"
    )]
    NotKeptHere(u64),
    /// There is no snapshot.
    #[error("the sleep area holds no snapshot")]
    NoSnapshot,
}

/// Why an image was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// There is no image, and the OS can go on.
    #[error("the image was not committed: {0}")]
    NotCommitted(StoreError),
    /// The medium failed so that nobody can tell whether there is an image. The
    /// OS must not go on: should the image wake one day, its disks would have
    /// changed behind its back. Reset the machine.
    #[error("nobody can tell whether the image was committed: {0}")]
    InDoubt(StoreError),
}

/// A sleep area, its records read.
///
/// Where the machine has a [`Guard`], that one decides: no image wakes that it
/// has not armed, whatever the records say. Without one, the records alone do.
pub struct Area<'a, M> {
    medium: Window<'a, M>,
    scratch: &'a mut Page,
    guard: Option<&'a mut dyn Guard>,
    slots: [SlotStatus; 2],
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

/// The proof that an image may be loaded now. Unless it is a snapshot it is
/// durably marked as consumed, and will not be loaded again.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted {
    slot: SlotId,
    generation: u64,
}

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
}

/// A slot that an image can be saved into.
#[derive(Debug)]
pub struct OpenSlot<'b, 'a, M> {
    area: &'b mut Area<'a, M>,
    slot: SlotId,
    generation: u64,
    purpose: Purpose,
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

impl Committed {
    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<'a, M: Medium> Area<'a, M> {
    /// Reads the records of the area. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooSmall`], [`StoreError::Medium`].
    pub fn open(
        mut medium: Window<'a, M>,
        scratch: &'a mut Page,
        guard: Option<&'a mut dyn Guard>,
    ) -> Result<Self, StoreError> {
        let bytes = medium.capacity();
        if bytes < MIN_AREA_BYTES {
            return Err(StoreError::TooSmall { bytes });
        }
        let mut slots = [SlotStatus::New; 2];
        for slot in SlotId::BOTH {
            medium.read(record_offset(slot), core::slice::from_mut(scratch))?;
            slots[slot.index()] =
                SlotStatus::read(scratch, slot_offset(slot, bytes), slot_bytes(bytes));
        }
        Ok(Area {
            medium,
            scratch,
            guard,
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
        let page = core::slice::from_mut(self.scratch);
        self.medium.read(CONFIGURATION_OFFSET, page)?;
        Configuration::parse(self.scratch)
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

    /// The machine's snapshot, if it keeps one: where, and how it has fared.
    #[must_use]
    pub fn snapshot(&self) -> Option<(SlotId, &SlotRecord, Standing)> {
        let slot = snapshot(&self.slots, self.kept())?;
        let (record, standing) = self.slots[slot.index()].snapshot()?;
        Some((slot, record, standing))
    }

    /// The snapshot that the guard knows, if there is one.
    fn kept(&self) -> Option<u64> {
        self.guard.as_ref().and_then(|guard| guard.kept())
    }

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
        Ok(OpenSlot {
            area: self,
            slot,
            generation,
            purpose,
        })
    }

    /// Lets an image be loaded: marks it as consumed, durably, or counts the try
    /// of a snapshot. Before this returns, not a byte of it may be put where the
    /// OS was. For a snapshot whose OS has been well before, or that may be tried
    /// for ever, nothing is written, unless something else is left to give up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] when the image may not wake any more;
    /// [`StoreError::PutBack`], [`StoreError::Spent`],
    /// [`StoreError::NotKeptHere`] when the machine's guard does not let it
    /// wake; [`StoreError::Medium`], [`StoreError::NotKept`],
    /// [`StoreError::Vault`]: the image may be committed still, see
    /// [`Area::discard_all`].
    pub fn admit(&mut self, image: &CommittedImage) -> Result<Admitted, StoreError> {
        if self.newest() != Ok(*image) {
            return Err(StoreError::Stale(image.slot));
        }
        self.may_wake(image.kind, image.generation)?;
        match image.kind {
            ImageKind::Once => self.consume(image.slot)?,
            ImageKind::Snapshot => self.begin_try()?,
        }
        Ok(Admitted {
            slot: image.slot,
            generation: image.generation,
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

    /// Its OS goes its own way from here on: nothing else may wake behind it.
    fn begin_try(&mut self) -> Result<(), StoreError> {
        self.discard_all(DiscardReason::SnapshotWoken)?;
        let rules = self.configuration().unwrap_or_default().snapshots;
        self.change_standing(|standing| {
            let counts = !standing.proven && rules.tries != 0;
            Standing {
                tries: standing.tries.saturating_add(u32::from(counts)),
                ..standing
            }
        })
    }

    /// Changes how the machine's snapshot stands; writes nothing where that is as
    /// it was.
    fn change_standing(
        &mut self,
        change: impl FnOnce(Standing) -> Standing,
    ) -> Result<(), StoreError> {
        let (slot, _, old) = self.snapshot().ok_or(StoreError::NoSnapshot)?;
        let new = change(old);
        if new == old {
            return Ok(());
        }
        self.change_state(slot, SlotState::Snapshot(new))
    }

    /// Notes that the OS of the machine's snapshot is well, having been woken:
    /// its tries begin anew, and from now on only failures count.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSnapshot`], [`StoreError::Medium`],
    /// [`StoreError::NotKept`].
    pub fn snapshot_is_well(&mut self) -> Result<(), StoreError> {
        self.change_standing(|_| Standing::WELL)
    }

    /// Notes that the OS of snapshot `generation` was reset, or reset itself,
    /// within `ms` of its wake. Does nothing if the machine keeps another by now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn snapshot_was_reset(&mut self, generation: u64, ms: u32) -> Result<(), StoreError> {
        match self.snapshot() {
            Some((_, record, _)) if record.generation == generation => {
                self.snapshot_failed(Failure::Reset(ms))
            }
            _ => Ok(()),
        }
    }

    fn snapshot_failed(&mut self, failure: Failure) -> Result<(), StoreError> {
        self.change_standing(|standing| Standing {
            tries: standing.tries.saturating_add(u32::from(standing.proven)),
            failure: Some(failure),
            ..standing
        })
    }

    /// Gives the machine's snapshot another name.
    ///
    /// # Errors
    ///
    /// As [`Area::snapshot_is_well`].
    pub fn name_snapshot(&mut self, name: Name) -> Result<(), StoreError> {
        let (slot, record, _) = self.snapshot().ok_or(StoreError::NoSnapshot)?;
        let record = SlotRecord { name, ..*record };
        self.put_record(slot, record)
    }

    /// Deletes the machine's snapshot, and older ones that may be left, durably.
    ///
    /// # Errors
    ///
    /// As [`Area::snapshot_is_well`], and [`StoreError::Vault`].
    pub fn delete_snapshot(&mut self) -> Result<(), StoreError> {
        let (newest, ..) = self.snapshot().ok_or(StoreError::NoSnapshot)?;
        if let Some(guard) = &mut self.guard {
            guard.keep(None)?;
        }
        // The older one first: it must not become the machine's.
        for slot in [newest.other(), newest] {
            if self.slots[slot.index()].snapshot().is_some() {
                self.change_state(slot, SlotState::Discarded(DiscardReason::Deleted))?;
            }
        }
        Ok(())
    }

    /// Gives up every image there may be, and what cannot be read too: it might
    /// be readable next time. For a cold boot, before the next stage is
    /// started: once the OS has gone on with its disks, no earlier image may
    /// ever wake. Writes only when there is something to give up.
    ///
    /// # Errors
    ///
    /// The first failure; everything has been tried all the same. With a guard
    /// an image may still wake if both the flash and the medium failed, without
    /// one if the medium did.
    pub fn discard_all(&mut self, reason: DiscardReason) -> Result<(), StoreError> {
        // With a guard, its word and the record's each keep an image from
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

    /// Whether the machine's guard, if it has one, lets the image of
    /// `generation` wake.
    ///
    /// # Errors
    ///
    /// [`StoreError::PutBack`], [`StoreError::Spent`],
    /// [`StoreError::NotKeptHere`]: it does not.
    pub fn may_wake(&self, kind: ImageKind, generation: u64) -> Result<(), StoreError> {
        let Some(guard) = &self.guard else {
            return Ok(());
        };
        if kind == ImageKind::Snapshot {
            return if guard.kept() == Some(generation) {
                Ok(())
            } else {
                Err(StoreError::NotKeptHere(generation))
            };
        }
        if guard.armed() == Some(generation) {
            return Ok(());
        }
        let (image, latest) = (generation, guard.generation());
        Err(if image < latest {
            StoreError::PutBack { image, latest }
        } else {
            StoreError::Spent(image)
        })
    }

    /// Has the guard not let the image of `generation` wake, which was made for
    /// `purpose`.
    fn take_back(&mut self, purpose: Purpose, generation: u64) -> Result<(), StoreError> {
        match (&mut self.guard, purpose) {
            (Some(guard), Purpose::Snapshot(_)) => {
                let older = guard.kept().filter(|kept| *kept != generation);
                Ok(guard.keep(older)?)
            }
            _ => self.disarm(),
        }
    }

    fn disarm(&mut self) -> Result<(), StoreError> {
        match &mut self.guard {
            Some(guard) => Ok(guard.disarm()?),
            None => Ok(()),
        }
    }

    /// The number of a new sleep: above the guard's, if there is one, and above
    /// those of the records. A record on a disk cannot use up a machine's
    /// numbers: where it is ahead of the guard, the records forget theirs.
    fn next_generation(&mut self) -> Result<u64, StoreError> {
        let newest = |area: &Self| area.generations().into_iter().fold(0, u64::max);
        let last = match &self.guard {
            Some(guard) => guard.generation(),
            None => LAST_GENERATION - 1,
        };
        if newest(self) > last {
            self.restart_numbers()?;
        }
        match &mut self.guard {
            Some(guard) => Ok(guard.reserve(0)?),
            None => Ok(newest(self) + 1),
        }
    }

    /// The numbers of the sleeps that the records tell of; 0 without one.
    fn generations(&self) -> [u64; 2] {
        self.slots
            .map(|slot| slot.record().map_or(0, |record| record.generation))
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

    /// Gives a slot's record another state, durably. A record that could not be
    /// read is replaced by one that knows nothing but the state.
    fn change_state(&mut self, slot: SlotId, state: SlotState) -> Result<(), StoreError> {
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

    fn new_record(&self, slot: SlotId, generation: u64) -> SlotRecord {
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
    fn put_record(&mut self, slot: SlotId, record: SlotRecord) -> Result<(), StoreError> {
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
            Purpose::Snapshot(name) => (SlotState::Snapshot(Standing::default()), name),
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
            return Ok(Committed { generation });
        };
        // The record may be on the medium or not, and the guard armed or not.
        // The OS can only go on if there is certainly no image.
        let disarmed = area.guard.is_some() && area.take_back(purpose, generation).is_ok();
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

impl<M: Medium> Area<'_, M> {
    /// Writes the record of a committed image, and arms the guard behind it: of
    /// two steps, the last one is the commit.
    fn commit_record(&mut self, slot: SlotId, record: SlotRecord) -> Result<(), StoreError> {
        self.put_record(slot, record)?;
        match &mut self.guard {
            Some(guard) if matches!(record.state, SlotState::Snapshot(_)) => {
                Ok(guard.keep(Some(record.generation))?)
            }
            Some(guard) => Ok(guard.arm(record.generation)?),
            None => Ok(()),
        }
    }
}

/// What precedes the slots: the configuration's page, the records, and room.
const HEAD_BYTES: u64 = SLOT_ALIGN;

/// Slots start at, and are, multiples of this.
const SLOT_ALIGN: u64 = 1 << 20;

/// Where the configuration's page lies; the records follow.
const CONFIGURATION_OFFSET: u64 = 0;

fn record_offset(slot: SlotId) -> u64 {
    (1 + slot.index() as u64) * PAGE_BYTES
}

/// Length of each slot of an area of `area_bytes` bytes.
fn slot_bytes(area_bytes: u64) -> u64 {
    area_bytes.saturating_sub(HEAD_BYTES) / 2 / SLOT_ALIGN * SLOT_ALIGN
}

fn slot_offset(slot: SlotId, area_bytes: u64) -> u64 {
    HEAD_BYTES + slot.index() as u64 * slot_bytes(area_bytes)
}
