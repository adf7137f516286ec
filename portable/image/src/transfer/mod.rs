//! Transfers images between memory and medium.

pub(crate) mod copy;
pub(crate) mod error;
pub(crate) mod load;
pub(crate) mod open;
mod pieces;
pub(crate) mod save;
pub(crate) mod sealed;
pub(crate) mod verify;
pub(crate) mod work;
pub(crate) mod workspace;
mod write;
