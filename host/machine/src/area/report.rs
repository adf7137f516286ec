use std::fmt;
use std::time::Duration;

use humantime::format_duration;
use poorwill_manifest::Forecast;
use poorwill_store::{Configuration, ConfigurationError, SleepMode, SnapshotRules};
use serde::Serialize;

use crate::size::Bytes;

/// A sleep area of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AreaReport {
    /// Number of the partition, from 1.
    pub partition: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Bytes of the partition.
    pub bytes: u64,
    /// Largest possible image, in bytes.
    pub slot_bytes: u64,
    pub configuration: ConfigurationReport,
    pub slots: Vec<SlotReport>,
}

/// The configuration of a sleep area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigurationReport {
    /// `persist`, `retain`, `staged`, `auto` or `cut`.
    pub mode: &'static str,
    /// Whether a user set the mode. If not, a machine with persistent RAM uses cuts.
    pub mode_is_chosen: bool,
    /// The mode and its default, as a sentence for users.
    #[serde(skip)]
    pub modes: &'static str,
    /// Time that `staged` retains, in ms.
    pub stage_delay_ms: u64,
    /// Time that `auto` retains, in ms, if set.
    pub break_even_ms: Option<u64>,
    /// Time from a sleep to its save, in ms; 0: at once; `None`: the mode never saves.
    pub stage_after_ms: Option<u64>,
    /// The name under which the next sleep is kept as a snapshot.
    pub next_snapshot: Option<String>,
    /// The snapshot is taken even if the firmware cannot guard each partition beside the area.
    pub accepts_unguarded: bool,
    /// Failed wakes in a row after which the snapshot wakes no more; 0: no limit.
    pub snapshot_tries: u32,
    /// Time after a snapshot's wake in which a reset counts as a failure, in ms.
    pub snapshot_trial_ms: u32,
    /// Time that a power-on waits for a key that cancels the snapshot's wake, in ms.
    pub snapshot_key_ms: u32,
    /// Why the configuration cannot be used; the fields above are then the default.
    pub error: Option<String>,
    /// Why the firmware in question cannot read the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One slot of a sleep area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotReport {
    /// 0 or 1.
    pub slot: usize,
    pub status: SlotStatus,
    /// Details of the status, such as the failure of a wake.
    pub reason: Option<String>,
    /// Number of the area's sleep that wrote the image.
    pub generation: Option<u64>,
    /// Length of the image, in bytes.
    pub image_bytes: Option<u64>,
    /// Time from the start of the sleep to its commit, in ms.
    pub sleep_ms: Option<u32>,
    /// The user's name of the snapshot.
    pub name: Option<String>,
    /// The image's header, if it is readable.
    pub image: Option<ImageReport>,
    /// The parts of a set, in the order of their domains' wakes; an image has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReport>,
    /// Whether the image wakes at the next power-on, by the records, and by the machine's flash if
    /// that was given.
    pub wakes: bool,
    /// Why the machine with the given flash refuses an image that would wake by the records.
    pub refused: Option<String>,
    /// The result of verification: only for images that may wake, and only on request.
    pub verdict: Option<Verdict>,
    /// Whether the firmware in question would wake the image. Set only for the image that wakes,
    /// for snapshots, and for unreadable records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotStatus {
    /// Never used.
    Empty,
    /// Holds an image that may wake.
    Committed,
    /// Holds a snapshot, which may wake at every power-on.
    Snapshot,
    /// Its image has woken, or its wake failed.
    Consumed,
    /// Its image is discarded.
    Discarded,
    /// Its record cannot be read.
    Unusable,
}

/// A part of a set: the image of one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartReport {
    /// Hash of the domain's name: 16 hexadecimal digits.
    pub name_hash: String,
    /// Why the domain did not wake.
    pub reason: Option<String>,
    /// Length of the image, in bytes.
    pub image_bytes: u64,
    /// The image's header, if it is readable.
    pub image: Option<ImageReport>,
    /// As in [`SlotReport`].
    pub verdict: Option<Verdict>,
}

/// The header of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageReport {
    /// Start of the sleep, RFC 3339 in UTC; `None`: the machine had no clock.
    pub saved_at: Option<String>,
    /// OS memory, in bytes.
    pub memory_bytes: u64,
    /// Bytes of saved pages.
    pub saved_bytes: u64,
    /// ID of the key that seals the image; `None`: it is plain.
    pub sealed_with: Option<String>,
    /// Short digests of the machine's memory map, harts, instruction set and device tree. They must
    /// be the same at the wake.
    pub machine: [String; 4],
}

/// Whether a firmware would wake an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "result", content = "reason")]
pub enum ForecastReport {
    Wakes,
    Refused(String),
    /// It cannot be decided, for this reason.
    Unknown(String),
}

impl From<Forecast> for ForecastReport {
    fn from(forecast: Forecast) -> Self {
        match forecast {
            Forecast::Wakes => ForecastReport::Wakes,
            Forecast::Refused(obstacle) => ForecastReport::Refused(obstacle.to_string()),
            Forecast::Unknown(gap) => ForecastReport::Unknown(gap.to_string()),
        }
    }
}

impl fmt::Display for ForecastReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForecastReport::Wakes => f.write_str("wakes under that firmware"),
            ForecastReport::Refused(reason) => {
                write!(f, "does NOT wake under that firmware: {reason}")
            }
            ForecastReport::Unknown(reason) => {
                write!(f, "not known under that firmware: {reason}")
            }
        }
    }
}

/// The result of verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "reason")]
pub enum Verdict {
    /// All checksums or tags match.
    Whole,
    /// The image would not wake.
    Damaged(String),
    /// It is sealed, and the flash with its key was not given.
    Sealed,
    /// It is sealed, and the flash has another key.
    OtherKey(String),
}

impl AreaReport {
    /// Whether no fault was found in the area.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let configuration = &self.configuration;
        let is_usable = configuration.error.is_none() && configuration.refused.is_none();
        is_usable && self.slots.iter().all(SlotReport::is_well)
    }
}

impl ConfigurationReport {
    #[must_use]
    pub fn of(found: Result<Configuration, ConfigurationError>) -> Self {
        let configuration = found.unwrap_or_default();
        ConfigurationReport {
            mode: configuration.mode.unwrap_or(SleepMode::Persist).name(),
            mode_is_chosen: configuration.mode.is_some(),
            modes: configuration.modes(),
            stage_delay_ms: configuration.stage_delay_ms,
            break_even_ms: Some(configuration.break_even_ms).filter(|ms| *ms != 0),
            stage_after_ms: configuration.stage_after_ms(),
            next_snapshot: configuration.next_snapshot.map(|name| name.to_string()),
            accepts_unguarded: configuration.accepts_unguarded,
            snapshot_tries: configuration.snapshots.tries,
            snapshot_trial_ms: configuration.snapshots.trial_ms,
            snapshot_key_ms: configuration.snapshots.key_ms,
            error: found.err().map(|error| error.to_string()),
            refused: None,
        }
    }
}

impl SlotReport {
    /// An otherwise empty report of a slot.
    #[must_use]
    pub fn new(slot: usize, status: SlotStatus) -> Self {
        SlotReport {
            slot,
            status,
            reason: None,
            generation: None,
            image_bytes: None,
            sleep_ms: None,
            name: None,
            image: None,
            parts: Vec::new(),
            wakes: false,
            refused: None,
            verdict: None,
            forecast: None,
        }
    }

    /// Whether the slot has no fault. A requested verification that was not possible counts as one,
    /// and so does a firmware that may refuse the image.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let parts = self.parts.iter().map(|part| &part.verdict);
        let mut verdicts = parts.chain([&self.verdict]);
        self.status != SlotStatus::Unusable
            && verdicts.all(|verdict| matches!(verdict, None | Some(Verdict::Whole)))
            && matches!(self.forecast, None | Some(ForecastReport::Wakes))
    }

    #[must_use]
    pub fn is_sealed(&self) -> bool {
        let parts = self.parts.iter().map(|part| &part.image);
        let mut images = parts.chain([&self.image]).flatten();
        images.any(|image| image.sealed_with.is_some())
    }
}

impl fmt::Display for SlotStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlotStatus::Empty => "empty",
            SlotStatus::Committed => "committed",
            SlotStatus::Snapshot => "snapshot",
            SlotStatus::Consumed => "consumed",
            SlotStatus::Discarded => "discarded",
            SlotStatus::Unusable => "unusable",
        })
    }
}

impl fmt::Display for AreaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, room) = (Bytes(self.bytes), Bytes(self.slot_bytes));
        writeln!(
            f,
            "partition {}: sleep area of {bytes}, images of up to {room}",
            self.partition
        )?;
        self.configuration.fmt(f)?;
        self.slots.iter().try_for_each(|slot| slot.fmt(f))
    }
}

impl fmt::Display for ConfigurationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms| format_duration(Duration::from_millis(ms));
        write!(f, "  sleep mode: {}", self.modes)?;
        match self.stage_after_ms {
            Some(0) | None => writeln!(f)?,
            Some(ms) => writeln!(f, ", persists after {}", time(ms))?,
        }
        write!(f, "    stage delay {}, ", time(self.stage_delay_ms))?;
        match self.break_even_ms {
            Some(ms) => writeln!(f, "break-even {}", time(ms))?,
            None => writeln!(f, "break-even not set")?,
        }
        self.fmt_snapshots(f)?;
        if let Some(error) = &self.error {
            writeln!(f, "    UNUSABLE: {error}")?;
        }
        match &self.refused {
            Some(reason) => writeln!(f, "    under that firmware: {reason}"),
            None => Ok(()),
        }
    }
}

impl ConfigurationReport {
    fn fmt_snapshots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = SnapshotRules {
            tries: self.snapshot_tries,
            trial_ms: self.snapshot_trial_ms,
            key_ms: self.snapshot_key_ms,
        };
        if rules != SnapshotRules::default() {
            self.fmt_rules(f)?;
        }
        match &self.next_snapshot {
            None => return Ok(()),
            Some(name) if name.is_empty() => {
                write!(f, "    the next sleep is kept as a snapshot")?;
            }
            Some(name) => write!(f, "    the next sleep is kept as snapshot {name:?}")?,
        }
        if self.accepts_unguarded {
            write!(f, ", even if partitions cannot be guarded")?;
        }
        writeln!(f)
    }

    fn fmt_rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: u32| format_duration(Duration::from_millis(ms.into()));
        write!(f, "    snapshots: ")?;
        match self.snapshot_tries {
            0 => write!(f, "woken after any number of failures")?,
            tries => write!(
                f,
                "no wake after {tries} failures in a row, resets within {} included",
                time(self.snapshot_trial_ms)
            )?,
        }
        match self.snapshot_key_ms {
            0 => writeln!(f),
            ms => writeln!(f, "; cancelled by a key within {}", time(ms)),
        }
    }
}

impl fmt::Display for SlotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  slot {}: {}", self.slot, self.status)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        if let Some(generation) = self.generation {
            write!(f, ", generation {generation}")?;
        }
        if !self.parts.is_empty() {
            write!(f, ", a set of {}", self.parts.len())?;
        }
        if let Some(bytes) = self.image_bytes {
            write!(f, ", {}", Bytes(bytes))?;
        }
        if let Some(ms) = self.sleep_ms {
            write!(f, ", saved in {ms} ms")?;
        }
        if self.wakes {
            write!(f, ", wakes at the next power-on")?;
        }
        if let Some(reason) = &self.refused {
            write!(f, ", does not wake: {reason}")?;
        }
        writeln!(f)?;
        if let Some(image) = &self.image {
            image.fmt(f)?;
        }
        if let Some(forecast) = &self.forecast {
            writeln!(f, "    {forecast}")?;
        }
        fmt_verdict(f, self.verdict.as_ref(), self.image.as_ref())?;
        let mut parts = self.parts.iter().enumerate();
        parts.try_for_each(|(index, part)| part.fmt(f, index))
    }
}

impl PartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
        let (hash, bytes) = (&self.name_hash, Bytes(self.image_bytes));
        write!(f, "    part {index}, domain with name hash {hash}: {bytes}")?;
        match &self.reason {
            Some(reason) => writeln!(f, " ({reason})")?,
            None => writeln!(f)?,
        }
        if let Some(image) = &self.image {
            write!(f, "{image}")?;
        }
        fmt_verdict(f, self.verdict.as_ref(), self.image.as_ref())
    }
}

fn fmt_verdict(
    f: &mut fmt::Formatter<'_>,
    verdict: Option<&Verdict>,
    image: Option<&ImageReport>,
) -> fmt::Result {
    let is_sealed = image.is_some_and(|image| image.sealed_with.is_some());
    match verdict {
        None => Ok(()),
        Some(Verdict::Whole) if is_sealed => writeln!(f, "    verified: all tags match"),
        Some(Verdict::Whole) => writeln!(f, "    verified: all checksums match"),
        Some(Verdict::Sealed) => writeln!(
            f,
            "    not verified: it is sealed; give the machine's flash (--flash FILE)"
        ),
        Some(Verdict::OtherKey(reason)) => writeln!(f, "    not verified: {reason}"),
        Some(Verdict::Damaged(reason)) => writeln!(f, "    DAMAGED: {reason}"),
    }
}

impl fmt::Display for ImageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.saved_at.as_deref().unwrap_or("at an unknown time");
        let (saved, memory) = (Bytes(self.saved_bytes), Bytes(self.memory_bytes));
        writeln!(f, "    saved {time}: {saved} of {memory} of RAM")?;
        if let Some(key) = &self.sealed_with {
            writeln!(f, "    sealed with key {key}")?;
        }
        let [map, harts, isa, tree] = &self.machine;
        writeln!(
            f,
            "    machine: memory map {map}, harts {harts}, instruction set {isa}, device tree {tree}"
        )
    }
}
