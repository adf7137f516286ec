//! The driver against a modelled controller.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

mod disk;
mod failures;
mod lifecycle;
mod model;
mod transfers;

use poorwill_memory::{OsMemory, OsPage, PAGE_BYTES, Page, PhysRange};

use self::disk::{Disk, Space};
use self::model::Model;
use super::{Controller, NvmeError, QueueMemory};

fn queue_memory() -> Box<QueueMemory> {
    Box::new(QueueMemory::EMPTY)
}

/// A controller with one namespace, number 1, of `pages` pages.
fn simple(pages: usize) -> Model {
    Model::new(Disk::new(vec![Space::new(1, 9, pages)]))
}

fn start<'a>(
    model: &'a Model,
    memory: &'a mut QueueMemory,
) -> Result<Controller<'a, &'a Model, &'a Model>, NvmeError> {
    Controller::start(model, model, memory)
}

/// Pages of OS memory, never freed.
struct Pages(OsMemory);

impl Pages {
    fn new(count: usize) -> Self {
        let pages = Vec::leak(vec![Page::ZERO; count]);
        let address = pages.as_mut_ptr().expose_provenance() as u64;
        let range = PhysRange::new(address, count as u64 * PAGE_BYTES);
        // SAFETY: the pages were leaked to be this and nothing else.
        Pages(unsafe { OsMemory::new(&[range], &[]) }.unwrap())
    }

    fn at(&self, index: usize) -> OsPage {
        self.0.at(index as u64).unwrap()
    }

    fn fill(&self, index: usize, value: u64) {
        for word in 0..512 {
            model::store(
                self.at(index).address() + 8 * word,
                value.wrapping_mul(word + 1),
            );
        }
    }

    fn bytes(&self, index: usize) -> Vec<u8> {
        self.0
            .page(self.at(index))
            .0
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }
}
