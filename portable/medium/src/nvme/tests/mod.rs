//! The driver against a modelled controller.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

mod failures;
mod lifecycle;
mod memory;
mod model;
mod region;
mod shared_namespaces;
mod transfers;

use self::model::{Model, with_disk};
use super::fake::{Disk, Space};
use super::{Controller, NvmeError, QueueMemory};
use crate::contract::Pages;

fn queue_memory() -> Box<QueueMemory> {
    Box::new(QueueMemory::EMPTY)
}

/// A controller with one namespace, number 1, of `pages` pages.
fn simple(pages: usize) -> Model {
    with_disk(Disk::new(vec![Space::new(1, 9, pages)]))
}

fn start<'a>(
    model: &'a Model,
    memory: &'a mut QueueMemory,
) -> Result<Controller<'a, &'a Model, &'a Model>, NvmeError> {
    Controller::start(model, model, memory)
}
