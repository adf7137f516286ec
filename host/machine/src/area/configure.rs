use std::path::Path;

use poorwill_memory::Page;
use poorwill_store::{
    Area, Configuration, ConfigurationError, Name, RecordFormat, SleepMode, SnapshotRules,
    StoreError, UnguardedPartition,
};

use super::find::AreaError;
use super::only::open_only;
use crate::disk::FileMedium;

/// Settings to change; `None` leaves a setting as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub mode: Option<SleepMode>,
    /// Time that `staged` retains, in ms.
    pub stage_delay_ms: Option<u64>,
    /// Time that `auto` retains, in ms; 0: not set.
    pub break_even_ms: Option<u64>,
    /// The name under which the next sleep is kept as a snapshot.
    pub next_snapshot: Option<Name>,
    /// Take the snapshot even if the firmware cannot guard each partition beside the area.
    pub accepts_unguarded: bool,
    /// As [`SnapshotRules::tries`].
    pub snapshot_tries: Option<u32>,
    /// As [`SnapshotRules::trial_ms`].
    pub snapshot_trial_ms: Option<u32>,
    /// As [`SnapshotRules::key_ms`].
    pub snapshot_key_ms: Option<u32>,
}

/// The configuration after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Number of the partition, from 1.
    pub partition: u32,
    pub configuration: Configuration,
    /// Why the old configuration could not be read; the change was then applied to the default.
    pub replaced: Option<ConfigurationError>,
    /// The partitions that the next snapshot cannot guard.
    pub unguarded: Vec<UnguardedPartition>,
}

/// Changes the sleep configuration on `disk`, durably. The machine must be off or asleep, and the
/// disk must have one sleep area.
///
/// # Errors
///
/// After an [`AreaError`] the old configuration is valid. After a failure of the disk, the new one
/// may be valid.
pub fn configure(disk: &Path, change: &Change) -> Result<Configured, AreaError> {
    let mut only = open_only(disk)?;
    let partition = only.partition;
    let unguarded = match change.next_snapshot {
        Some(_) => only.unguarded().map_err(|reason| AreaError::Table {
            file: disk.to_owned(),
            reason,
        })?,
        None => Vec::new(),
    };
    if let (Some(reason), false) = (unguarded.first(), change.accepts_unguarded) {
        return Err(AreaError::Unguarded {
            file: disk.to_owned(),
            reason: *reason,
        });
    }
    let mut page = Page::ZERO;
    let configured = only
        .window()
        .and_then(|window| Area::open(window, &mut page, None, RecordFormat::Image))
        .and_then(|mut area| change.apply(&mut area));
    match configured {
        Ok((configuration, replaced)) => Ok(Configured {
            partition,
            configuration,
            replaced,
            unguarded,
        }),
        Err(reason) => Err(AreaError::Area {
            file: disk.to_owned(),
            partition,
            reason,
        }),
    }
}

impl Change {
    fn apply(
        &self,
        area: &mut Area<'_, FileMedium>,
    ) -> Result<(Configuration, Option<ConfigurationError>), StoreError> {
        let (old, replaced) = match area.configuration() {
            Ok(old) => (old, None),
            // After a failed read the old configuration may still be valid.
            Err(ConfigurationError::Medium(error)) => return Err(error.into()),
            Err(error) => (Configuration::default(), Some(error)),
        };
        let new = Configuration {
            mode: self.mode.or(old.mode),
            stage_delay_ms: self.stage_delay_ms.unwrap_or(old.stage_delay_ms),
            break_even_ms: self.break_even_ms.unwrap_or(old.break_even_ms),
            next_snapshot: self.next_snapshot.or(old.next_snapshot),
            accepts_unguarded: match self.next_snapshot {
                Some(_) => self.accepts_unguarded,
                None => old.accepts_unguarded,
            },
            snapshots: SnapshotRules {
                tries: self.snapshot_tries.unwrap_or(old.snapshots.tries),
                trial_ms: self.snapshot_trial_ms.unwrap_or(old.snapshots.trial_ms),
                key_ms: self.snapshot_key_ms.unwrap_or(old.snapshots.key_ms),
            },
        };
        area.configure(&new)?;
        Ok((new, replaced))
    }
}
