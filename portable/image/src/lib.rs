//! One saved machine.
//!
//! An *image* fills one slot: a header, the state of the machine, the map of
//! the pages saved, what need not be saved of the others, a digest of every piece,
//! and the saved pages; all of it sealed under the machine's key, where it has one.
//! `docs/image-format.md` describes it byte by byte. [`save()`] writes one;
//! [`open`] checks one without touching OS memory; [`load()`] puts the memory
//! back. What the machine's state means is the firmware's business: here it is
//! sections of their owners.
//!
//! `format` is what an image consists of; `seal` is the cipher over it; `scan` finds pages
//! that need not be saved; `transfer` moves images and memory, and uses the others.
//! `workers` and `work_state` are what these two share: how harts work together.
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
