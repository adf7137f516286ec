use poorwill_image::{FORMAT_VERSION, Header, HeaderError, StateSections};
use poorwill_store::{Configuration, ConfigurationError};
use poorwill_store::{RECORD_VERSION, RecordError, SlotStatus};
use thiserror::Error;

use crate::formats::Versions;
use crate::memory::{MemoryForecast, forecast};
use crate::raw::Manifest;

/// Why a firmware would refuse an image, or could not read what lies beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// The image's format.
    #[error("the image has format {found}, and that firmware reads {known}")]
    Image {
        /// Of the image.
        found: u16,
        /// Of the firmware.
        known: Versions,
    },
    /// The format of the slot's record.
    #[error("the slot's record has format {found}, and that firmware reads {known}")]
    SlotRecord {
        /// Of the record.
        found: u16,
        /// Of the firmware.
        known: Versions,
    },
    /// The configuration's format.
    #[error(
        "the configuration has format {found}, and that firmware reads {known}: \
         it would take the default instead"
    )]
    Configuration {
        /// Of the configuration.
        found: u16,
        /// Of the firmware.
        known: Versions,
    },
    /// The vault's format.
    #[error("the vault has version {found}, and that firmware reads {known}")]
    Vault {
        /// Of the vault.
        found: u16,
        /// Of the firmware.
        known: Versions,
    },
    /// A section of the machine's state.
    #[error("that firmware does not read version {version} of the state section {}", Tag(*.owner))]
    State {
        /// Owner of the section.
        owner: u32,
        /// Version of the section.
        version: u16,
    },
    /// The machine's identity is computed by another rule.
    #[error(
        "that firmware computes a machine's identity by rule {found}, the image has rule {known}"
    )]
    Identity {
        /// The firmware's rule.
        found: u16,
        /// The image's rule.
        known: u16,
    },
    /// The OS would have other memory.
    #[error(
        "another memory map: that firmware reserves {data_bytes:#x} bytes beside its code, \
         which are not what the image's firmware reserved"
    )]
    MemoryMap {
        /// The firmware's second range in bytes.
        data_bytes: u64,
    },
}

/// What keeps this program from telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Gap {
    /// The image's format is another than this program's.
    #[error(
        "this program reads images of format {FORMAT_VERSION}, and it has {0}: use that firmware's own program"
    )]
    Image(u16),
    /// The record's format is another than this program's.
    #[error(
        "this program reads slot records of format {RECORD_VERSION}, and it has {0}: use that firmware's own program"
    )]
    SlotRecord(u16),
    /// The image or its state cannot be read.
    #[error("the image cannot be read")]
    Unreadable,
    /// The machine's state is encrypted.
    #[error("the image is sealed, so the sections of its state cannot be read")]
    Sealed,
    /// The machine has more than one range of memory, or reserves some by its device
    /// tree.
    #[error(
        "the memory map cannot be foreseen: the machine has several ranges of memory, or reserves some"
    )]
    MemoryMap,
    /// The firmware places its second range by a rule that is unknown here.
    #[error("that firmware places its memory by rule {0}, which this program does not know")]
    Placement(u16),
}

/// Whether an image would wake under another firmware, as far as that depends on the
/// firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// It would.
    Wakes,
    /// It would not.
    Refused(Obstacle),
    /// Nothing speaks against it, and not everything could be looked at.
    Unknown(Gap),
}

/// The sections of an image's state, as far as they could be read.
#[derive(Debug)]
pub enum State<'a> {
    /// They can be read.
    Sections(&'a StateSections<'a>),
    /// They are encrypted, and the key is not at hand.
    Sealed,
    /// They are damaged.
    Unreadable,
}

/// Owner of the section by which an image tells that its machine has a power-fail line: what
/// the OS was told of cuts.
pub const CUT_SECTION: u32 = u32::from_le_bytes(*b"CUTS");

/// Whether an image's machine has a power-fail line, by its state; `None`: that cannot be
/// read.
fn has_power_fail(state: &State<'_>) -> Option<bool> {
    match state {
        State::Sections(sections) => {
            let mut owners = sections.left().iter().map(|section| section.owner);
            Some(owners.any(|owner| owner == CUT_SECTION))
        }
        State::Sealed | State::Unreadable => None,
    }
}

/// An owner as its four letters.
struct Tag(u32);

impl core::fmt::Display for Tag {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0.to_le_bytes().escape_ascii())
    }
}

impl Manifest {
    /// Whether the firmware reads the record of a slot.
    #[must_use]
    pub fn check_slot(&self, slot: &SlotStatus) -> Forecast {
        let found = match slot {
            SlotStatus::New => return Forecast::Wakes,
            SlotStatus::Record(_) | SlotStatus::Unusable(RecordError::Resized) => RECORD_VERSION,
            SlotStatus::Unusable(RecordError::Version { found, .. }) => *found,
            SlotStatus::Unusable(_) => return Forecast::Unknown(Gap::Unreadable),
        };
        let known = self.formats.record;
        if !known.contains(found) {
            Forecast::Refused(Obstacle::SlotRecord { found, known })
        } else if found != RECORD_VERSION {
            Forecast::Unknown(Gap::SlotRecord(found))
        } else {
            Forecast::Wakes
        }
    }

    /// Whether the firmware reads the configuration of a sleep area; one that it does
    /// not read keeps no image from waking.
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
            // Whatever it is, its format is not what is in the way.
            Err(_) => return Ok(()),
        };
        let known = self.formats.configuration;
        match known.contains(found) {
            true => Ok(()),
            false => Err(Obstacle::Configuration { found, known }),
        }
    }

    /// Whether the firmware reads a vault of version `found`.
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

    /// Whether the firmware would wake an image on the machine that saved it, with
    /// the header and the state that are found in it.
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
            // That the state cannot be read is told where nothing else is.
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
