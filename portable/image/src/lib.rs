//! Images: saved machines.
//!
//! An *image* fills one slot. Its parts are: a header, the machine's state, the map of saved
//! pages, lists of free runs and strided fills, a digest for each piece, the saved pages.
//! All of it is sealed if the machine has a key. `docs/image-format.md` describes it byte
//! by byte. [`save()`] writes an image; [`open`] checks one without touching OS memory;
//! [`load()`] restores the memory. The machine's state consists of sections, whose
//! meaning only their owners in the firmware know.
//!
//! The modules: `format` has the bytes of an image, `seal` the cipher, and `scan` the search for
//! pages that need not be saved. `transfer` moves images between memory and medium. `workers` and
//! `work_state` coordinate harts that work together.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

// Pages are held and hashed as words, and the format is little-endian.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "Poorwill runs on little-endian machines"
);

mod format;
mod scan;
mod seal;
mod transfer;
mod work_state;
mod workers;

pub use format::digest::Digest;
pub use format::header::{FORMAT_VERSION, Header, HeaderError, ImageKind, Section, SectionKind};
pub use format::layout::{PIECE_PAGES, data_offset};
pub use format::seal_mark::{KeyId, Salt, SealMark};
pub use format::state::{
    MAX_STATE_SECTIONS, SectionWriter, StateError, StateSection, StateSections, StateWriter,
};
pub use seal::{CutKey, Seal, SealError, SealingKey, Trust};
pub use transfer::copy::{CopyError, CopyRequest, copy};
pub use transfer::error::{LoadError, NoRoom, SaveError};
pub use transfer::load::{Loaded, clear, load};
pub use transfer::open::{Checked, Expected, Here, OpenError, Opened, inspect, open, read_state};
pub use transfer::save::{SaveRequest, Saved, give_back, open_in_place, save};
pub use transfer::sealed::{NotOpened, SealedMemory};
pub use transfer::verify::verify;
pub use transfer::work::CipherWork;
pub use transfer::workspace::{STATE_PAGES, Workspace};
pub use workers::{NoWorkers, PowerFails, Workers};

/// The progress of a save, a load or a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The finished pages. A save counts the scanned pages of OS memory; a load or
    /// verification counts saved pages.
    pub done_pages: u64,
    /// The number of pages to finish.
    pub total_pages: u64,
    /// The bytes of page data moved so far.
    pub moved_bytes: u64,
}
