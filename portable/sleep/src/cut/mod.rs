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
mod entries;
#[cfg(feature = "fake")]
pub mod fake;
mod find;
mod go;
mod good;
mod guard;
mod layout;
mod line;
mod memory;
mod misfit;
mod note;
mod proof;
mod reason;
mod rehearsal;
mod request;
mod status;
mod stop;
mod wear;

pub use caches::{CacheError, CacheMeans, CacheOperations, CachePlan, CacheSize, LineMeans};
pub use find::{CutReport, Found, Look, Newest, find};
pub use go::{GoMachine, NoGo, Ready, discard, end, go};
pub use good::wait_for_power;
pub use guard::{Guard, Prover};
pub use layout::{Layout, Place};
pub use line::{CutCause, LINE_BYTES, Line, PartEntry};
pub use memory::CutMemory;
pub use misfit::Misfit;
pub use note::{note, take_back};
pub use proof::Proof;
pub use reason::CutReason;
pub use rehearsal::{HoldUpTooShort, Rehearsal, StopTime};
pub use request::{NoCut, RequestMachine, request};
pub use status::{CutStatus, ToldStatus};
pub use stop::{CutCommitted, StopMachine, single_lines, stop};
pub use wear::{MAX_WEAR_WORDS, WearWords};
