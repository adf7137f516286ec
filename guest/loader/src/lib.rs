//! Which memory a kernel and its initramfs take, decided before the first byte is moved:
//! [`Plan::make`] says what of the [`Items`] that QEMU hands over goes where. The program
//! beside it does that, and starts the kernel.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod command_line;
mod elf;
mod error;
mod items;
mod kernel_file;
mod piece;
mod place;
mod plan;
mod tree;

pub use command_line::{CommandLine, MAX_COMMAND_LINE, command_line};
pub use error::LoadError;
pub use items::{DeviceError, Item, Items};
pub use piece::{MAX_PIECES, Piece};
pub use place::{TREE_GROWTH, Taken};
pub use plan::Plan;
pub use tree::tell;
