//! The manifest of a firmware file.
//!
//! It lists the on-disk formats and state sections that the firmware reads, and the memory that it
//! reserves. Before an update, tools [`read`] the manifest and predict which images the new
//! firmware would still wake ([`Manifest::check_image`]). For its bytes see `docs/image-format.md`,
//! section "The manifest".
//!
//! The manifest begins with a magic word and contains its own length and checksum. Tools can
//! therefore find it both in an ELF file and in a flat binary within a boot loader's image.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod check;
mod formats;
mod layout;
mod memory;
mod raw;
mod search;

pub use check::{CUT_SECTION, Forecast, Gap, Obstacle, State};
pub use formats::{Formats, Versions};
pub use layout::{Added, CutRecord, DataRange, MAX_TERMS, MemoryLayout, readable_page};
pub use raw::{MANIFEST_BYTES, MANIFEST_VERSION, MAX_SECTIONS, Manifest, Parts, SectionVersion};
pub use search::{ManifestError, read};
