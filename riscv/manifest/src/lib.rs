//! The manifest of a firmware file.
//!
//! A firmware file carries which versions of the on-disk formats it reads, which
//! sections of a machine's state it knows, and which memory it reserves. Before an
//! update, tools read it ([`read`]) and tell which images the new firmware would
//! still wake ([`Manifest::check_image`]). `docs/image-format.md` has the bytes, in its
//! section "The manifest".
//!
//! The manifest begins with a magic word and carries its own length and checksum, so
//! that it is found in an ELF file as well as in the flat binary that a boot loader's
//! image contains.
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
pub use layout::{CutRecord, DataRange, MAX_TERMS, MemoryLayout};
pub use raw::{MANIFEST_BYTES, MANIFEST_VERSION, MAX_SECTIONS, Manifest, Parts, SectionVersion};
pub use search::{ManifestError, read};
