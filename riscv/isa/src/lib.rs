//! Instructions of RV64IMAFDC with Zicsr, Zifencei, Zicbom, Zicboz, Zba, Zbb, Zbs, Zcb, Zicond,
//! Zawrs, Zacas (words and double words), Svinval, and those of S-mode.
//!
//! [`FORMS`] is the table of all 32-bit encodings; [`Instruction::decode`] and the tests use it.
//! Compressed instructions are [expanded](expand) to 32-bit ones. Loads, stores and the
//! instructions of machine mode's emulation come from the same table.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally"
)]

mod compressed;
mod decode;
pub mod encode;
mod form;
mod forms;
mod memory_access;

pub use compressed::expand;
pub use decode::{Instruction, is_long};
pub use form::Format;
pub use forms::{FORMS, Form, Operation};
pub use memory_access::{Direction, MemoryAccess};
