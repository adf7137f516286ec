//! Changes to a committed snapshot: its name, its boot attempts, its deletion.

use poorwill_medium::Medium;

use crate::area::Area;
use crate::choice::snapshot;
use crate::error::StoreError;
use crate::failure::Failure;
use crate::name::Name;
use crate::record::SlotRecord;
use crate::slot::{BootAttempts, DiscardReason, SlotId, SlotState};

impl<M: Medium> Area<'_, M> {
    /// The machine's snapshot, if there is one: its slot, record and boot attempts.
    #[must_use]
    pub fn snapshot(&self) -> Option<(SlotId, &SlotRecord, BootAttempts)> {
        let slot = snapshot(&self.slots, self.kept())?;
        let (record, attempts) = self.slots[slot.index()].snapshot()?;
        Some((slot, record, attempts))
    }

    /// The boot attempts of the machine's snapshot if it has used up its tries. If the
    /// configuration cannot be read, the default applies.
    #[must_use]
    pub fn exhausted_snapshot(&mut self) -> Option<BootAttempts> {
        let (_, _, attempts) = self.snapshot()?;
        let rules = self.configuration().unwrap_or_default().snapshots;
        (!rules.allow(attempts.tries)).then_some(attempts)
    }

    /// Counts the try, and discards all other images, since the snapshot's OS will change
    /// the disks.
    pub(crate) fn begin_try(&mut self) -> Result<(), StoreError> {
        self.discard_all(DiscardReason::SnapshotWoken)?;
        let rules = self.configuration().unwrap_or_default().snapshots;
        self.change_attempts(|attempts| {
            let counts = !attempts.proven && rules.tries != 0;
            BootAttempts {
                tries: attempts.tries.saturating_add(u32::from(counts)),
                ..attempts
            }
        })
    }

    /// Records that the snapshot's OS reported a good wake. The count of tries restarts,
    /// and from now on only failed wakes count.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSnapshot`], [`StoreError::Medium`],
    /// [`StoreError::NotKept`].
    pub fn snapshot_is_well(&mut self) -> Result<(), StoreError> {
        self.change_attempts(|_| BootAttempts::WELL)
    }

    /// Records that the OS of snapshot `generation` was reset within `ms` of its wake.
    /// Does nothing if the machine now keeps another snapshot.
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

    pub(crate) fn snapshot_failed(&mut self, failure: Failure) -> Result<(), StoreError> {
        self.change_attempts(|attempts| BootAttempts {
            tries: attempts.tries.saturating_add(u32::from(attempts.proven)),
            failure: Some(failure),
            ..attempts
        })
    }

    /// Renames the machine's snapshot.
    ///
    /// # Errors
    ///
    /// As [`Area::snapshot_is_well`].
    pub fn name_snapshot(&mut self, name: Name) -> Result<(), StoreError> {
        let (slot, record, _) = self.snapshot().ok_or(StoreError::NoSnapshot)?;
        let record = SlotRecord { name, ..*record };
        self.put_record(slot, &record)
    }

    /// Deletes the machine's snapshot and older ones that remain, durably.
    ///
    /// # Errors
    ///
    /// As [`Area::snapshot_is_well`], and [`StoreError::Vault`].
    pub fn delete_snapshot(&mut self) -> Result<(), StoreError> {
        let (newest, ..) = self.snapshot().ok_or(StoreError::NoSnapshot)?;
        if let Some(counter) = &mut self.counter {
            counter.keep(None)?;
        }
        // Delete the older one first, or it would become the machine's snapshot.
        for slot in [newest.other(), newest] {
            if self.slots[slot.index()].snapshot().is_some() {
                self.change_state(slot, SlotState::Discarded(DiscardReason::Deleted))?;
            }
        }
        Ok(())
    }

    /// Changes the boot attempts of the machine's snapshot. Writes only if they differ.
    pub(crate) fn change_attempts(
        &mut self,
        change: impl FnOnce(BootAttempts) -> BootAttempts,
    ) -> Result<(), StoreError> {
        let (slot, _, old) = self.snapshot().ok_or(StoreError::NoSnapshot)?;
        let new = change(old);
        if new == old {
            return Ok(());
        }
        self.change_state(slot, SlotState::Snapshot(new))
    }
}
