use core::fmt;

use crate::failure::Failure;

/// One of the two slots of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotId {
    /// Slot 0.
    First,
    /// Slot 1.
    Second,
}

impl SlotId {
    /// Both slots.
    pub const BOTH: [SlotId; 2] = [SlotId::First, SlotId::Second];

    /// 0 or 1.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            SlotId::First => 0,
            SlotId::Second => 1,
        }
    }

    /// The other slot.
    #[must_use]
    pub fn other(self) -> SlotId {
        match self {
            SlotId::First => SlotId::Second,
            SlotId::Second => SlotId::First,
        }
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index())
    }
}

/// The reason why an image was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DiscardReason {
    /// The machine began another sleep.
    NewSleep = 1,
    /// The machine was cold booted, so the OS has changed its disks.
    ColdBoot = 2,
    /// The commit failed, and the OS continued.
    CommitFailed = 3,
    /// The record could not be read.
    Unreadable = 4,
    /// The image was damaged, or another machine's.
    Refused = 5,
    /// The user deleted the snapshot.
    Deleted = 6,
    /// A snapshot woke, so its OS changes the disks.
    SnapshotWoken = 7,
}

impl DiscardReason {
    pub(crate) const ALL: [DiscardReason; 7] = [
        DiscardReason::NewSleep,
        DiscardReason::ColdBoot,
        DiscardReason::CommitFailed,
        DiscardReason::Unreadable,
        DiscardReason::Refused,
        DiscardReason::Deleted,
        DiscardReason::SnapshotWoken,
    ];
}

impl fmt::Display for DiscardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiscardReason::NewSleep => "the machine slept again",
            DiscardReason::ColdBoot => "the machine was cold booted",
            DiscardReason::CommitFailed => "its commit failed",
            DiscardReason::Unreadable => "its record could not be read",
            DiscardReason::Refused => "it was damaged, or of another machine",
            DiscardReason::Deleted => "it was deleted",
            DiscardReason::SnapshotWoken => "a snapshot woke instead",
        })
    }
}

/// The state of a slot's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// The image may wake.
    Committed,
    /// The image has woken, or its wake failed.
    Consumed {
        /// The reason of the failed wake.
        failure: Option<Failure>,
        /// A boot has reported the failure.
        reported: bool,
    },
    /// The image will never wake.
    Discarded(DiscardReason),
    /// The image is a snapshot and may wake at every power-on.
    Snapshot(BootAttempts),
}

/// The results of a snapshot's wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootAttempts {
    /// The OS has reported a good wake at least once. Before that, each wake is counted before it
    /// begins. After that, only failed wakes are counted.
    pub proven: bool,
    /// The number of counted wakes in a row.
    pub tries: u32,
    /// The reason of the latest failure, if known.
    pub failure: Option<Failure>,
}

impl BootAttempts {
    /// The state after the OS reported a good wake.
    pub const WELL: BootAttempts = BootAttempts {
        proven: true,
        tries: 0,
        failure: None,
    };
}

impl fmt::Display for BootAttempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.proven, self.tries, self.failure) {
            (true, 0, _) => f.write_str("wakes well"),
            (false, 0, _) => f.write_str("not tried yet"),
            (_, tries, None) => write!(f, "failed wakes in a row: {tries}"),
            (_, tries, Some(failure)) => {
                write!(f, "failed wakes in a row: {tries}, the last one: {failure}")
            }
        }
    }
}
