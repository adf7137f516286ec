//! RISC-V machines in QEMU, for the host command, the benches and the tests.
//!
//! - [`Machine`] describes a machine. [`Machine::arguments`] is its QEMU command line, the same at
//!   each power-on.
//! - [`RunningMachine`] runs it with a program at its console, [`interactive`] with a user.
//! - [`disk`], [`area`] and [`flash`] create, read and change the files of its disks and its flash.
//! - [`psu`] controls the power supply of a machine with persistent memory, and [`cut`] reads the
//!   cuts in that memory.
//! - [`firmware`] reads a firmware file's manifest.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "names that say it need no comment")]

pub mod area;
mod arguments;
mod board;
mod capture;
pub mod console;
mod cpu_time;
pub mod cut;
pub mod disk;
pub mod domains;
pub mod firmware;
pub mod flash;
pub mod growing;
pub mod interactive;
pub mod interrupt;
mod machine;
mod outcome;
pub mod paths;
mod power_supply;
pub mod psu;
mod qemu;
pub mod qmp;
mod quoted;
mod ram;
pub mod resources;
mod running;
pub mod size;
mod supplied;
mod traced;
pub mod tree;

pub use arguments::{Console, file_memory};
pub use board::{Board, Interrupts, Part};
pub use capture::Watcher;
pub use cpu_time::CpuTime;
pub use machine::{Bus, DEBIAN_COMMAND_LINE, Disk, HostCache, Machine, Socket};
pub use outcome::{Exit, Failed, StartError, WaitError};
pub use power_supply::{Clock, ClockError, PowerSupply};
pub use qemu::{MINIMUM, Qemu, QemuError, RECOMMENDED, Version, in_path};
pub use ram::RamError;
pub use running::{PowerOn, RunningMachine};
pub use supplied::{GRACE_US, SupplyError};
