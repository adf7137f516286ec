use core::fmt;

use poorwill_image::FORMAT_VERSION;
use poorwill_store::{
    CONFIGURATION_VERSION, OLDEST_CONFIGURATION_VERSION, OLDEST_RECORD_VERSION, RECORD_VERSION,
};
use poorwill_vault::{OLDEST_VAULT_VERSION, VAULT_VERSION};

/// The versions of a format that a firmware reads. It writes the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
}

impl Versions {
    /// A single version.
    #[must_use]
    pub const fn only(version: u16) -> Self {
        Versions {
            oldest: version,
            newest: version,
        }
    }

    /// Returns whether this includes `version`.
    #[must_use]
    pub fn contains(&self, version: u16) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "{}", self.newest)
        } else {
            write!(f, "{} to {}", self.oldest, self.newest)
        }
    }
}

/// The on-disk formats that a firmware reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// The image.
    pub image: Versions,
    /// The record of a slot.
    pub record: Versions,
    /// The configuration of the sleep area.
    pub configuration: Versions,
    /// The vault.
    pub vault: Versions,
}

impl Formats {
    /// The formats that this build reads.
    pub const BUILT: Formats = Formats {
        image: Versions::only(FORMAT_VERSION),
        record: Versions {
            oldest: OLDEST_RECORD_VERSION,
            newest: RECORD_VERSION,
        },
        configuration: Versions {
            oldest: OLDEST_CONFIGURATION_VERSION,
            newest: CONFIGURATION_VERSION,
        },
        vault: Versions {
            oldest: OLDEST_VAULT_VERSION,
            newest: VAULT_VERSION,
        },
    };
}
