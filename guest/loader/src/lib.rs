//! Plans the memory for a kernel and its initramfs, before the first byte is loaded. [`Plan::make`]
//! assigns memory to each of the [`Items`] that QEMU offers. The program in this crate loads them
//! and starts the kernel.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "names that say it need no comment")]
#![deny(clippy::let_underscore_must_use)]

mod command_line;
mod error;
mod items;
mod piece;
mod place;
mod plan;
mod tree;

pub use command_line::{CommandLine, MAX_COMMAND_LINE, command_line};
pub use error::LoadError;
pub use items::{DeviceError, Item, Items};
pub use piece::Piece;
pub use place::{TREE_GROWTH, Taken};
pub use plan::Plan;
pub use tree::tell;
