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
    /// Both.
    pub const BOTH: [SlotId; 2] = [SlotId::First, SlotId::Second];

    /// 0 or 1.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            SlotId::First => 0,
            SlotId::Second => 1,
        }
    }

    /// The one that this is not.
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

/// Why an image will never wake though it was not consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DiscardReason {
    /// The machine went on to another sleep.
    NewSleep = 1,
    /// The machine was cold booted: the OS has gone on with its disks.
    ColdBoot = 2,
    /// The commit failed, and the OS went on.
    CommitFailed = 3,
    /// The record could not be read; what it said is not known.
    Unreadable = 4,
    /// The image was damaged, or of another machine.
    Refused = 5,
    /// Somebody deleted the snapshot.
    Deleted = 6,
    /// A snapshot woke, and its OS goes its own way.
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
            DiscardReason::SnapshotWoken => "a snapshot was woken instead",
        })
    }
}

/// What has become of a slot's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It may wake.
    Committed,
    /// It has woken, or its wake failed.
    Consumed {
        /// Why its wake failed.
        failure: Option<Failure>,
        /// A boot has named the failure already.
        reported: bool,
    },
    /// It will not wake.
    Discarded(DiscardReason),
    /// It is a snapshot: it may wake at every power-on.
    Snapshot(BootAttempts),
}

/// How the wakes of a snapshot have gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootAttempts {
    /// Its OS has said that it is well, behind some wake. Until then every wake
    /// is counted before it begins; from then on those that are known to have
    /// failed.
    pub proven: bool,
    /// Wakes in a row so counted.
    pub tries: u32,
    /// Why the latest of them failed, as far as known.
    pub failure: Option<Failure>,
}

impl BootAttempts {
    /// Of one whose OS has said that it is well.
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
