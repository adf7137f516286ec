//! A machine of a few pages, between machine mode's memory, a device, and nothing.
#![allow(dead_code, reason = "each test uses a part")]

use poorwill_translate::Host;
use poorwill_translate::fake::{DEVICE, FakeHost, RAM};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const PAGES: u64 = 16;
/// The page of the memory that is machine mode's.
pub(crate) const KEPT: u64 = RAM + 5 * PAGE;

/// Places of words in a page that accesses use.
const PLACES: [u64; 6] = [0, 8, 0x7f0, 0x7f8, 0xff0, 0xff8];

/// A host. Some words have their own addresses as values; as entries of tables these are invalid.
pub(crate) fn wall() -> FakeHost {
    let host = FakeHost::new(PAGES);
    host.keep(KEPT);
    for place in PLACES {
        let pages = (0..PAGES).map(|number| RAM + PAGE * number);
        for page in pages.filter(|page| *page != KEPT) {
            put(&host, page + place, page + place);
        }
        let register = DEVICE + place;
        let stored = host.store_device(register, 8, register);
        stored.expect("the device is there");
    }
    host.stored.borrow_mut().clear();
    host
}

pub(crate) fn word(host: &FakeHost, address: u64) -> u64 {
    host.load(address, 8)
}

pub(crate) fn put(host: &FakeHost, address: u64, value: u64) {
    host.store(address, 8, value);
}
