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
    /// Most bytes an image may have.
    pub slot_bytes: u64,
    /// How its machine sleeps.
    pub configuration: ConfigurationReport,
    /// The two slots.
    pub slots: Vec<SlotReport>,
}

/// How the machine of a sleep area sleeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigurationReport {
    /// `persist`, `retain`, `staged`, `auto` or `cut`.
    pub mode: &'static str,
    /// Somebody has chosen it; if not, a machine whose RAM is persistent is cut.
    pub mode_is_chosen: bool,
    /// The words for both.
    #[serde(skip)]
    pub modes: &'static str,
    /// How long `staged` retains, in ms.
    pub stage_delay_ms: u64,
    /// How long `auto` retains, in ms, if that is set.
    pub break_even_ms: Option<u64>,
    /// After how many ms of retaining it persists; 0: at once, none: never.
    pub stage_after_ms: Option<u64>,
    /// The name of the snapshot that the next sleep is kept as, if it is.
    pub next_snapshot: Option<String>,
    /// It is kept even if partitions beside the area cannot be guarded.
    pub accepts_unguarded: bool,
    /// After how many failed wakes in a row a snapshot is not tried any more; 0:
    /// it always is.
    pub snapshot_tries: u32,
    /// How long after a snapshot's wake a reset says that it has failed, in ms.
    pub snapshot_trial_ms: u32,
    /// How long a key on the console is waited for that calls a snapshot's wake off,
    /// in ms.
    pub snapshot_key_ms: u32,
    /// Why the configuration cannot be used, if it cannot; all of the above is
    /// the default then.
    pub error: Option<String>,
    /// Why the firmware that was asked for would not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One slot of a sleep area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotReport {
    /// 0 or 1.
    pub slot: usize,
    /// What is in it.
    pub status: SlotStatus,
    /// Why, where there is a reason.
    pub reason: Option<String>,
    /// The image's number; it counts the sleeps of the area.
    pub generation: Option<u64>,
    /// Bytes of the slot that the image takes.
    pub image_bytes: Option<u64>,
    /// How long the sleep took up to its commit, in ms.
    pub sleep_ms: Option<u32>,
    /// What people call the snapshot.
    pub name: Option<String>,
    /// What the image says of itself, as long as it is there.
    pub image: Option<ImageReport>,
    /// Whether it is the image that wakes at the next power-on: by the records,
    /// and by the machine's flash if that was looked at.
    pub wakes: bool,
    /// Why the machine whose flash was looked at refuses the image that would
    /// wake by the records.
    pub refused: Option<String>,
    /// What verification found; only of images that may wake, and only when asked.
    pub verdict: Option<Verdict>,
    /// Whether the firmware that was asked for would wake the image; only of the image
    /// that wakes, of snapshots, and of records that cannot be read here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastReport>,
}

/// What has become of a slot.
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
    /// Its image was given up.
    Discarded,
    /// Its record cannot be read.
    Unusable,
}

/// What an image's header says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageReport {
    /// When the sleep began, RFC 3339 in UTC; none if the machine did not know.
    pub saved_at: Option<String>,
    /// RAM of the machine that the OS has, in bytes.
    pub memory_bytes: u64,
    /// Bytes of pages that were saved.
    pub saved_bytes: u64,
    /// The id of the key that it is sealed with; none of a plain image.
    pub sealed_with: Option<String>,
    /// The machine, as one short digest for each aspect that must be the same at
    /// the wake: memory map, harts, instruction set, device tree.
    pub machine: [String; 4],
}

/// Whether a firmware would wake an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "result", content = "reason")]
pub enum ForecastReport {
    /// It would.
    Wakes,
    /// It would not.
    Refused(String),
    /// Nobody can tell from what there is.
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
                write!(f, "under that firmware: cannot be told: {reason}")
            }
        }
    }
}

/// What verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "reason")]
pub enum Verdict {
    /// Every checksum or tag fits.
    Whole,
    /// The image would not wake.
    Damaged(String),
    /// It is sealed, and nobody gave the flash with its key: nothing can be said.
    Sealed,
    /// It is sealed, and the flash does not hold its key: nothing can be said.
    OtherKey(String),
}

impl AreaReport {
    /// Whether all in it is as Poorwill left it, as far as that was to be found
    /// out.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let configuration = &self.configuration;
        let is_usable = configuration.error.is_none() && configuration.refused.is_none();
        is_usable && self.slots.iter().all(SlotReport::is_well)
    }
}

impl ConfigurationReport {
    /// What an area says of its configuration.
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
    /// A slot without anything known.
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
            wakes: false,
            refused: None,
            verdict: None,
            forecast: None,
        }
    }

    /// Whether it is as Poorwill left it. An image that was to be verified and
    /// could not be is not well; neither is one that the firmware that was asked for
    /// may not wake.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.status != SlotStatus::Unusable
            && matches!(self.verdict, None | Some(Verdict::Whole))
            && matches!(self.forecast, None | Some(ForecastReport::Wakes))
    }

    /// Whether it holds an image that is sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        let image = self.image.as_ref();
        image.is_some_and(|image| image.sealed_with.is_some())
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
            write!(f, ", whichever partitions cannot be guarded")?;
        }
        writeln!(f)
    }

    fn fmt_rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: u32| format_duration(Duration::from_millis(ms.into()));
        write!(f, "    snapshots: ")?;
        match self.snapshot_tries {
            0 => write!(f, "woken however often that fails")?,
            tries => write!(
                f,
                "given up after {tries} failed wakes in a row, resets within {} of them counted",
                time(self.snapshot_trial_ms)
            )?,
        }
        match self.snapshot_key_ms {
            0 => writeln!(f),
            ms => writeln!(f, "; called off by a key within {}", time(ms)),
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
        match &self.verdict {
            None => Ok(()),
            Some(Verdict::Whole) if self.is_sealed() => {
                writeln!(f, "    verified: every tag fits")
            }
            Some(Verdict::Whole) => writeln!(f, "    verified: every checksum fits"),
            Some(Verdict::Sealed) => writeln!(
                f,
                "    not verified: it is sealed; give the machine's flash (--flash FILE)"
            ),
            Some(Verdict::OtherKey(reason)) => writeln!(f, "    not verified: {reason}"),
            Some(Verdict::Damaged(reason)) => writeln!(f, "    DAMAGED: {reason}"),
        }
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
