//! A buffer of stores before memory: loads see the stores, and memory stays as it is.

use core::cell::{Cell, RefCell};

use super::super::trace::{Load, Store};
use crate::host::Host;

/// The buffer.
pub(super) struct Buffer<'a, H> {
    host: &'a H,
    stores: RefCell<List<'a>>,
    loads: RefCell<List<'a>>,
    /// Something has happened that the buffer cannot hold.
    has_ended: Cell<bool>,
}

struct List<'a> {
    all: &'a mut [Store],
    count: u16,
}

impl List<'_> {
    /// Returns false without room.
    fn push(&mut self, access: Store) -> bool {
        let free = self.all.get_mut(usize::from(self.count));
        let Some(free) = free else {
            return false;
        };
        *free = access;
        self.count += 1;
        true
    }

    fn filled(&self) -> &[Store] {
        &self.all[..self.count.into()]
    }
}

impl<'a, H> Buffer<'a, H> {
    pub(super) fn new(host: &'a H, stores: &'a mut [Store], loads: &'a mut [Load]) -> Self {
        let list = |all| RefCell::new(List { all, count: 0 });
        Buffer {
            host,
            stores: list(stores),
            loads: list(loads),
            has_ended: Cell::new(false),
        }
    }

    /// Returns whether an instruction has done what the buffer does not hold.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Numbers of stores and loads.
    pub(super) fn counts(&self) -> [u16; 2] {
        [&self.stores, &self.loads].map(|list| list.borrow().count)
    }

    fn push(&self, list: &RefCell<List<'a>>, access: Store) {
        if !list.borrow_mut().push(access) {
            self.has_ended.set(true);
        }
    }
}

impl<H: Host> Host for Buffer<'_, H> {
    fn is_memory(&self, page: u64) -> bool {
        self.host.is_memory(page)
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        let value = self.host.load(address, bytes);
        let load = Load {
            address,
            value,
            bytes: bytes as u8,
        };
        self.push(&self.loads, load);
        let stores = self.stores.borrow();
        let mut whole = value.to_le_bytes();
        for (address, byte) in (address..address + bytes).zip(&mut whole) {
            if let Some(stored) = Store::byte(stores.filled(), address) {
                *byte = stored;
            }
        }
        u64::from_le_bytes(whole)
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        let store = Store {
            address,
            value,
            bytes: bytes as u8,
        };
        self.push(&self.stores, store);
    }

    fn store_entry(&self, _: u64, _: u64) {
        self.has_ended.set(true);
    }

    fn load_device(&self, _: u64, _: u64) -> Option<u64> {
        self.has_ended.set(true);
        None
    }

    fn store_device(&self, _: u64, _: u64, _: u64) -> Option<()> {
        self.has_ended.set(true);
        None
    }

    fn fence(&self) {}

    fn time(&self) -> u64 {
        self.host.time()
    }

    fn external_interrupt(&self) -> bool {
        self.host.external_interrupt()
    }
}
