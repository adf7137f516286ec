//! Sleep and wake on this hardware. The `sleep` crate decides, and orders the steps. This module
//! implements its machine, and ends a sleep or a wake.

mod clock;
mod device;
mod domains;
mod iommus;
mod machine;
mod release;
mod retain;
mod run;
mod woken;

pub(crate) use domains::{Depth, Refused, may_sleep, sleep};
pub(crate) use machine::KernelSpace;
pub(crate) use run::{discard_images, wake};
