//! Cuts: execution is stopped at one instant, and kept in persistent RAM (LightPC, sections III-B
//! and IV).
//!
//! When the power fails, [`stop()`] stops every hart and writes its context to the record. It makes
//! the devices quiet, writes the caches back, and commits. At the next power-on [`find()`] looks
//! for a cut, and [`go()`] restores everything and lets the harts continue. Memory keeps its
//! contents: the record holds only state that memory does not.
//!
//! An OS that asks for a sleep may get a cut, too ([`request()`]). Its other harts are stopped
//! already, and the OS continues at its wake vector.
//!
//! The record consists of lines and parts ([`Layout`]). If the power is lost before a line is
//! [written back](CutMemory::write_back), the line may be in memory, missing or torn. So each line
//! has a checksum, and is written back before the next step relies on it.
//!
//! On a machine with a vault, a key authenticates the record. Only machine mode has the key, and
//! only while the machine runs. The vault counts cuts ([`Guard`]): a record from before the last
//! power-on is refused.

mod caches;
#[cfg(feature = "fake")]
pub mod fake;
mod find;
mod go;
mod good;
mod guard;
mod layout;
mod line;
mod misfit;
mod note;
mod proof;
mod reason;
mod request;
mod status;
mod stop;
mod wear;

use poorwill_image::Digest;

pub use caches::{CacheError, CacheMeans, CacheOperations, CachePlan, CacheSize, LineMeans};
pub use find::{CutReport, Found, Look, Newest, find};
pub use go::{GoMachine, NoGo, Ready, discard, end, go};
pub use good::wait_for_power;
pub use guard::{Guard, Prover};
pub use layout::{Layout, Place};
pub use line::{CutCause, LINE_BYTES, Line, PartEntry};
pub use misfit::Misfit;
pub use note::{note, take_back};
pub use proof::Proof;
pub use reason::CutReason;
pub use request::{NoCut, RequestMachine, request};
pub use status::{CutStatus, ToldStatus};
pub use stop::{CutCommitted, StopMachine, stop};
pub use wear::{MAX_WEAR_WORDS, WearWords};

/// The record, in the firmware's own part of RAM.
pub trait CutMemory {
    /// The layout of the record.
    fn layout(&self) -> Layout;

    /// Reads the line at a place, as harts see it.
    fn line(&self, place: Place) -> Line;

    /// Stores a line. It may stay in a cache.
    fn store(&self, place: Place, line: &Line);

    /// Writes the line at a place back. When this returns, the line is in memory, and so is each
    /// earlier write-back.
    fn write_back(&self, place: Place);

    /// The digest of the first `bytes` bytes of a part; `None` if the part is shorter.
    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest>;
}

/// Stores a line and writes it back.
fn put(memory: &impl CutMemory, place: Place, line: &Line) {
    memory.store(place, line);
    memory.write_back(place);
}
