//! One saved machine.
//!
//! An *image* fills one slot: a header, the state of the machine, the map of
//! the pages saved, what need not be saved of the others, a digest of every piece,
//! and the saved pages; all of it sealed under the machine's key, where it has one.
//! `docs/image-format.md` describes it byte by byte. [`save()`] writes one;
//! [`open`] checks one without touching OS memory; [`load()`] puts the memory
//! back. What the machine's state means is the firmware's business: here it is
//! tagged records.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

// Pages are held and hashed as words, and the format is little-endian.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "Poorwill runs on little-endian machines"
);

mod copy;
mod crew;
mod digest;
mod error;
mod free;
mod header;
mod layout;
mod load;
mod looks;
mod open;
mod pieces;
mod progressions;
mod save;
mod scouts;
mod seal;
mod stage;
mod state;
mod stretch;
mod verify;
mod work;
mod workspace;
mod write;

pub use copy::{CopyError, CopyRequest, copy};
pub use crew::{Alone, Crew};
pub use digest::Digest;
pub use error::{LoadError, SaveError};
pub use header::{FORMAT_VERSION, Header, HeaderError, ImageKind, Section, SectionKind};
pub use layout::{PIECE_PAGES, data_offset};
pub use load::{Loaded, load};
pub use open::{Checked, Expected, Here, OpenError, Opened, inspect, open};
pub use save::{SaveRequest, Saved, give_back, save};
pub use seal::{KeyId, Salt, Seal, SealError, SealMark, SealingKey, Trust};
pub use state::{Record, StateError, StateReader, StateWriter};
pub use verify::verify;
pub use work::CipherWork;
pub use workspace::{NoRoom, STATE_PAGES, Workspace};

/// How far a save, a load or a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Pages dealt with, of `total_pages`. Saving counts the pages of OS
    /// memory looked at; loading and verifying count saved pages.
    pub done_pages: u64,
    /// Pages to deal with.
    pub total_pages: u64,
    /// Bytes of page data moved so far.
    pub moved_bytes: u64,
}
