//! Accesses of a virtual hart to memory and devices.

use poorwill_hart::page_entry::Intent;
use poorwill_memory::PAGE_BYTES;

use crate::hart::VirtualHart;
use crate::host::Host;
use crate::translation::{Place, access_fault};
use crate::trap::{Trap, UNKNOWN};

impl VirtualHart {
    /// Loads `bytes` bytes, possibly misaligned.
    pub(crate) fn load(&mut self, address: u64, bytes: u64, host: &impl Host) -> Result<u64, Trap> {
        if address.is_multiple_of(bytes) {
            let place = self.translate(address, Intent::Load, host)?;
            return self.load_at(place, address, bytes, host);
        }
        let places = self.places(address, bytes, Intent::Load, host)?;
        let byte = |number: u64| host.load(places.of(number), 1) << (8 * number);
        Ok((0..bytes).map(byte).fold(0, |value, byte| value | byte))
    }

    /// Stores the low `bytes` bytes of a value, possibly misaligned.
    pub(crate) fn store(
        &mut self,
        address: u64,
        bytes: u64,
        value: u64,
        host: &impl Host,
    ) -> Result<(), Trap> {
        if address.is_multiple_of(bytes) {
            let place = self.translate(address, Intent::Store, host)?;
            return self.store_at(place, address, bytes, value, host);
        }
        let places = self.places(address, bytes, Intent::Store, host)?;
        for number in 0..bytes {
            host.store(places.of(number), 1, value >> (8 * number) & 0xff);
        }
        Ok(())
    }

    /// The places of a misaligned access, all of which are checked before the first is used. The
    /// lent hart itself makes those that touch devices.
    fn places(
        &mut self,
        address: u64,
        bytes: u64,
        intent: Intent,
        host: &impl Host,
    ) -> Result<Places, Trap> {
        let first = self.translate(address, intent, host)?;
        let in_first = (PAGE_BYTES - address % PAGE_BYTES).min(bytes);
        let rest = match in_first < bytes {
            true => self.translate(address.wrapping_add(in_first), intent, host)?,
            false => first,
        };
        if !first.is_memory || !rest.is_memory {
            return Err(UNKNOWN);
        }
        Ok(Places {
            first: first.physical,
            in_first,
            rest: rest.physical,
        })
    }

    /// Makes a load at a place; `address` is the virtual one, for a fault.
    pub(crate) fn load_at(
        &mut self,
        place: Place,
        address: u64,
        bytes: u64,
        host: &impl Host,
    ) -> Result<u64, Trap> {
        if place.is_memory {
            return Ok(host.load(place.physical, bytes));
        }
        let loaded = host.load_device(place.physical, bytes);
        let loaded = loaded.ok_or_else(|| access_fault(Intent::Load, address))?;
        self.counts.device_accesses += 1;
        Ok(loaded)
    }

    /// Makes a store at a place; `address` is the virtual one, for a fault.
    pub(crate) fn store_at(
        &mut self,
        place: Place,
        address: u64,
        bytes: u64,
        value: u64,
        host: &impl Host,
    ) -> Result<(), Trap> {
        let value = value & (u64::MAX >> (64 - 8 * bytes));
        if place.is_memory {
            host.store(place.physical, bytes, value);
            return Ok(());
        }
        let stored = host.store_device(place.physical, bytes, value);
        stored.ok_or_else(|| access_fault(Intent::Store, address))?;
        self.counts.device_accesses += 1;
        Ok(())
    }
}

/// Physical addresses of a misaligned access.
struct Places {
    first: u64,
    /// Bytes in the first page.
    in_first: u64,
    /// Of the first byte in the second page.
    rest: u64,
}

impl Places {
    fn of(&self, byte: u64) -> u64 {
        match byte.checked_sub(self.in_first) {
            None => self.first + byte,
            Some(byte) => self.rest + byte,
        }
    }
}
