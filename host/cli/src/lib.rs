//! Poorwill's host side: launching machines ([`machine`]), their disks and
//! sleep areas, and the commands of `poorwill` on top of them.
//!
//! The tests use this library too, so that they start machines exactly as the
//! command does.
#![forbid(unsafe_code)]

pub mod area;
pub mod bench;
pub mod commands;
pub mod console;
pub mod demo;
pub mod disk;
pub mod doctor;
pub mod energy;
pub mod flash;
pub mod interrupt;
pub mod machine;
pub mod paths;
pub mod progress;
pub mod report;
mod resources;
pub mod size;
pub mod table;
