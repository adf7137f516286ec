//! A cut: execution stopped at an instant, and kept in RAM that is persistent (LightPC,
//! sections III-B and IV).
//!
//! When the power fails, [`stop()`] stops every hart and writes its context to the record. It makes
//! the devices quiet, writes the caches back, and commits. At the next power-on [`find()`] looks
//! for a cut, and [`go()`] puts everything back and lets the harts go on. Memory stays where it is:
//! the record holds only state that memory does not.
//!
//! A machine whose OS asks for a sleep may be cut, too ([`request()`]): its other harts are
//! stopped already, and the OS goes on at its wake vector.
//!
//! The record is lines and parts ([`Layout`]). A line that was not
//! [written back](CutMemory::write_back) before the power is gone may be in memory, or not, or in
//! pieces. So each line has a checksum, and is written back before the next step relies on it.
//!
//! On a machine with a vault, a key authenticates the record. Only machine mode has the key, and
//! only while the machine runs. The vault counts cuts ([`Guard`]): a record that is not of the last
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
    /// How the record is laid out.
    fn layout(&self) -> Layout;

    /// The line there, as harts see it.
    fn line(&self, place: Place) -> Line;

    /// Stores a line, which is in memory, or still in a cache, from then on.
    fn store(&self, place: Place, line: &Line);

    /// Writes the line there back: it is in memory when this returns, and all earlier write-backs
    /// are, too.
    fn write_back(&self, place: Place);

    /// The digest of the first `bytes` bytes of a part; `None` where it is not that long.
    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest>;
}

/// Stores a line and writes it back.
fn put(memory: &impl CutMemory, place: Place, line: &Line) {
    memory.store(place, line);
    memory.write_back(place);
}
