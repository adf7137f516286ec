use poorwill_image::{FORMAT_VERSION, Header, HeaderError, StateSections};
use poorwill_store::{Configuration, ConfigurationError};
use poorwill_store::{
    OLDEST_RECORD_VERSION, RECORD_VERSION, RecordError, RecordFormat, SlotStatus,
};
use thiserror::Error;

use crate::formats::Versions;
use crate::memory::{MemoryForecast, forecast};
use crate::raw::Manifest;

/// Why a firmware would refuse an image, or could not read other data on the medium.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    #[error("the image has format {found}, and that firmware reads {known}")]
    Image { found: u16, known: Versions },
    #[error("the slot's record has format {found}, and that firmware reads {known}")]
    SlotRecord { found: u16, known: Versions },
    #[error(
        "the configuration has format {found}, and that firmware reads {known}: \
         it would take the default instead"
    )]
    Configuration { found: u16, known: Versions },
    #[error("the vault has version {found}, and that firmware reads {known}")]
    Vault { found: u16, known: Versions },
    #[error("that firmware does not read version {version} of the state section {}", Tag(*.owner))]
    State { owner: u32, version: u16 },
    #[error(
        "that firmware computes a machine's identity by rule {found}, the image has rule {known}"
    )]
    Identity { found: u16, known: u16 },
    #[error(
        "another memory map: that firmware reserves {data_bytes:#x} bytes beside its code, \
         which are not what the image's firmware reserved"
    )]
    MemoryMap { data_bytes: u64 },
}

/// The reason why no prediction is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Gap {
    /// The image's format is not this program's.
    #[error(
        "this program reads images of format {FORMAT_VERSION}, and this one has {0}: use that firmware's own program"
    )]
    Image(u16),
    /// The record's format is not this program's.
    #[error(
        "this program reads slot records of formats {OLDEST_RECORD_VERSION} to {RECORD_VERSION}, and this one has {0}: use that firmware's own program"
    )]
    SlotRecord(u16),
    /// The slot holds a set.
    #[error("the wake of a set of several domains cannot be predicted")]
    Set,
    /// The image or its state cannot be read.
    #[error("the image cannot be read")]
    Unreadable,
    /// The machine's state is encrypted.
    #[error("the image is sealed, so the sections of its state cannot be read")]
    Sealed,
    /// The machine has several ranges of memory, or its device tree reserves memory.
    #[error(
        "the memory map cannot be predicted: the machine has several ranges of memory, or reserves memory in its device tree"
    )]
    MemoryMap,
    /// This program does not know the rule by which the firmware places its second range.
    #[error("that firmware places its memory by rule {0}, which this program does not know")]
    Placement(u16),
}

/// A prediction whether an image wakes under another firmware. It considers only the differences
/// between the firmwares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// The image would wake.
    Wakes,
    /// The image would not wake.
    Refused(Obstacle),
    /// No obstacle was found, but not everything could be checked.
    Unknown(Gap),
}

/// The sections of an image's state, as far as they can be read.
#[derive(Debug)]
pub enum State<'a> {
    /// They can be read.
    Sections(&'a StateSections<'a>),
    /// They are encrypted, and this program does not have the key.
    Sealed,
    /// They are damaged.
    Unreadable,
}

/// Owner of the section with the cut status. Only images of machines with a power-fail line have
/// it.
pub const CUT_SECTION: u32 = u32::from_le_bytes(*b"CUTS");

/// Returns whether the image's machine has a power-fail line; `None` if its state cannot be read.
fn has_power_fail(state: &State<'_>) -> Option<bool> {
    match state {
        State::Sections(sections) => {
            let mut owners = sections.left().iter().map(|section| section.owner);
            Some(owners.any(|owner| owner == CUT_SECTION))
        }
        State::Sealed | State::Unreadable => None,
    }
}

/// Shows an owner as its four letters.
struct Tag(u32);

impl core::fmt::Display for Tag {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0.to_le_bytes().escape_ascii())
    }
}

impl Manifest {
    /// Checks whether the firmware reads a slot's record.
    #[must_use]
    pub fn check_slot(&self, slot: &SlotStatus) -> Forecast {
        let found = match slot {
            SlotStatus::New => return Forecast::Wakes,
            SlotStatus::Record(record) => record.format().version(),
            // Its format is not known, and does not matter: no firmware wakes it.
            SlotStatus::Unusable(RecordError::Resized) => OLDEST_RECORD_VERSION,
            SlotStatus::Unusable(RecordError::Version { found, .. }) => *found,
            SlotStatus::Unusable(_) => return Forecast::Unknown(Gap::Unreadable),
        };
        let known = self.formats.record;
        if !known.contains(found) {
            Forecast::Refused(Obstacle::SlotRecord { found, known })
        } else if found == RecordFormat::Image.version() {
            Forecast::Wakes
        } else if found == RecordFormat::Set.version() {
            Forecast::Unknown(Gap::Set)
        } else {
            Forecast::Unknown(Gap::SlotRecord(found))
        }
    }

    /// Checks whether the firmware reads a sleep area's configuration. An unreadable configuration
    /// does not keep an image from waking.
    ///
    /// # Errors
    ///
    /// [`Obstacle::Configuration`].
    pub fn check_configuration(
        &self,
        configuration: Result<Configuration, ConfigurationError>,
    ) -> Result<(), Obstacle> {
        let found = match configuration {
            Ok(configuration) => configuration.format(),
            Err(ConfigurationError::Version { found, .. }) => found,
            // Another error; the format is not the obstacle.
            Err(_) => return Ok(()),
        };
        let known = self.formats.configuration;
        match known.contains(found) {
            true => Ok(()),
            false => Err(Obstacle::Configuration { found, known }),
        }
    }

    /// Checks whether the firmware reads a vault of version `found`.
    ///
    /// # Errors
    ///
    /// [`Obstacle::Vault`].
    pub fn check_vault(&self, found: u16) -> Result<(), Obstacle> {
        let known = self.formats.vault;
        match known.contains(found) {
            true => Ok(()),
            false => Err(Obstacle::Vault { found, known }),
        }
    }

    /// Predicts whether the firmware would wake an image, with this header and state, on the
    /// machine that saved it.
    #[must_use]
    pub fn check_image(&self, header: Result<&Header, &HeaderError>, state: State<'_>) -> Forecast {
        let found = match header {
            Ok(_) => FORMAT_VERSION,
            Err(HeaderError::Version { found, .. }) => *found,
            Err(_) => return Forecast::Unknown(Gap::Unreadable),
        };
        let known = self.formats.image;
        if !known.contains(found) {
            return Forecast::Refused(Obstacle::Image { found, known });
        }
        let Ok(header) = header else {
            return Forecast::Unknown(Gap::Image(found));
        };
        let memory = match has_power_fail(&state) {
            Some(has_power_fail) => self.check_memory(header, has_power_fail),
            // An unreadable state is reported only if nothing else is wrong.
            None => match self.check_memory(header, false) {
                Forecast::Wakes => Forecast::Wakes,
                other => match self.check_memory(header, true) {
                    Forecast::Wakes => Forecast::Wakes,
                    _ => other,
                },
            },
        };
        match (memory, self.check_state(state)) {
            (refused @ Forecast::Refused(_), _) | (_, refused @ Forecast::Refused(_)) => refused,
            (unknown @ Forecast::Unknown(_), _) | (_, unknown @ Forecast::Unknown(_)) => unknown,
            (Forecast::Wakes, Forecast::Wakes) => Forecast::Wakes,
        }
    }

    fn check_memory(&self, header: &Header, has_power_fail: bool) -> Forecast {
        let (os_pages, identity) = (header.os_pages, &header.identity);
        match forecast(&self.layout, os_pages, identity, has_power_fail) {
            MemoryForecast::Same => Forecast::Wakes,
            MemoryForecast::Other { data_bytes } => {
                Forecast::Refused(Obstacle::MemoryMap { data_bytes })
            }
            MemoryForecast::OtherIdentity { found, known } => {
                Forecast::Refused(Obstacle::Identity { found, known })
            }
            MemoryForecast::OtherPlacement(rule) => Forecast::Unknown(Gap::Placement(rule)),
            MemoryForecast::Unknown => Forecast::Unknown(Gap::MemoryMap),
        }
    }

    fn check_state(&self, state: State<'_>) -> Forecast {
        let sections = match state {
            State::Sections(sections) => sections,
            State::Sealed => return Forecast::Unknown(Gap::Sealed),
            State::Unreadable => return Forecast::Unknown(Gap::Unreadable),
        };
        for section in sections.left() {
            let (owner, version) = (section.owner, section.version);
            let mut known = self.sections.iter();
            if !known.any(|known| (known.owner, known.version) == (owner, version)) {
                return Forecast::Refused(Obstacle::State { owner, version });
            }
        }
        Forecast::Wakes
    }
}
