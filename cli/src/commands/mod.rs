//! One file for each command; `main` parses and dispatches.

pub mod disk;
pub mod run;
