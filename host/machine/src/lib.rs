//! RISC-V machines in QEMU, as a library for the host command, the benches and the
//! tests, so that all of them start machines in the same way: what a machine is made
//! of ([`Machine`]), the QEMU command line that is the same at every power-on
//! ([`Machine::arguments`]), the machine while it runs ([`RunningMachine`] for
//! programs, [`interactive`] for people), and the files behind its disks ([`disk`],
//! [`area`]) and its flash ([`flash`]); the power supply of one whose memory is persistent
//! ([`psu`]), and what a cut leaves in that memory ([`cut`]); and what a firmware file says
//! of itself ([`firmware`]).
#![forbid(unsafe_code)]

pub mod area;
mod arguments;
mod capture;
pub mod console;
mod cpu_time;
pub mod cut;
pub mod disk;
pub mod firmware;
pub mod flash;
pub mod interactive;
pub mod interrupt;
mod machine;
mod outcome;
pub mod paths;
mod power_supply;
pub mod psu;
mod qemu;
pub mod qmp;
mod ram;
pub mod resources;
mod running;
pub mod size;
mod supplied;
pub mod tree;

pub use arguments::{Console, file_memory};
pub use capture::Watcher;
pub use cpu_time::CpuTime;
pub use machine::{
    Bus, DEBIAN_COMMAND_LINE, Disk, HostCache, Interrupts, Machine, TINY_COMMAND_LINE,
};
pub use outcome::{Exit, Failed, StartError, WaitError};
pub use power_supply::{Clock, ClockError, PowerSupply};
pub use qemu::{MINIMUM, Qemu, QemuError, RECOMMENDED, Version, in_path};
pub use ram::RamError;
pub use running::{PowerOn, RunningMachine};
pub use supplied::{GRACE_US, SupplyError};
