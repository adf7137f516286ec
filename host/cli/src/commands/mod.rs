//! One file for each command; `main` parses and dispatches.

pub mod area;
pub mod bench;
pub mod demo;
pub mod disk;
pub mod doctor;
pub mod energy;
pub mod key;
pub mod report;
pub mod run;
