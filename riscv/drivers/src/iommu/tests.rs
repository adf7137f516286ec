mod contexts;
mod faults;
mod maps;
mod model;
mod properties;
mod start;
mod translation;

use poorwill_memory::PhysRange;

use self::model::{Model, PAGE, Request};
use super::*;
use crate::Registers;

type Driver<'a> = TranslatingIommu<&'a Model, &'a Model>;

/// Pages for the tables, far above all maps of the tests.
const TABLES: u64 = 0x7f_0000_0000;

fn table_pages(count: u64) -> TablePages {
    TablePages::new(PhysRange::new(TABLES, count * PAGE))
}

/// A started driver, with `pages` more pages.
fn started(model: &Model, pages: u64) -> (Driver<'_>, TablePages) {
    let mut pages = table_pages(3 + pages);
    let iommu = TranslatingIommu::start(model, model, &mut pages, DeviceId(0)).unwrap();
    (iommu, pages)
}

fn writable(start: u64, length: u64) -> DmaRange {
    DmaRange {
        range: PhysRange::new(start, length),
        is_writable: true,
        is_open: true,
    }
}

fn read_only(start: u64, length: u64) -> DmaRange {
    DmaRange {
        is_writable: false,
        ..writable(start, length)
    }
}
