//! The page scanner: finds pages that need not be saved.

mod look_ahead;
mod scan_block;
pub(crate) mod scanner;
pub(crate) mod strided_fills;
