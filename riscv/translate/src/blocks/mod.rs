//! Translated code: blocks of the OS's supervisor mode, as the weak core's lower mode runs them.
//!
//! A block has the instructions from one address up to a branch or, if it is [long](code::Extent), up to
//! a jump. It ends with its page. Most registers of the OS are the core's own; [`KEPT`](writer::KEPT)
//! ones lie in the [`Environment`], so that translated code has registers of its own. Accesses go through
//! a table of translations of pages, which machine mode fills. What a block cannot do, it leaves to the
//! interpreter with an `ebreak`.
//!
//! **An instruction of the OS takes effect with the last of its words.** So a trap at any word finds
//! the state before an instruction, and [`Place`](region::Place)s say before which one. A register that
//! the instruction writes, but does not read, may have changed: it is written again. Translated code
//! never asks for interrupts: they trap.
//!
//! The harts of an OS share blocks and tables: both have global pages alone, which an OS maps alike in
//! all address spaces.
//!
//! Translated code is not trusted. Its mode reaches the OS's memory, the [`Region`] for reads and
//! execution, and the [`Environment`], by the core's PMP. Machine mode fills the tables only with
//! pages that the lent hart may access itself.

mod access;
mod cache;
#[cfg(feature = "check")]
mod check;
mod code;
mod control;
mod counts;
mod enter;
#[cfg(feature = "fake")]
pub mod fake_core;
mod find_text;
mod found;
mod in_stack;
mod index;
mod interpret;
mod leaf;
mod lines;
mod pages;
mod places;
mod region;
mod run;
mod search;
mod sites;
mod stacks;
mod text;
#[cfg(feature = "check")]
mod trace;
mod translate;
mod values;
mod windows;
mod writer;

pub use cache::Blocks;
pub use enter::{Core, Left, Watch};
pub use region::{Environment, Index, REGION_BYTES, Region};
pub use translate::Options;
