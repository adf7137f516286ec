//! Access faults of the OS: accesses to mediated registers are made for it, and all
//! others go to it.

use poorwill_arch::{csr, fence};
use poorwill_domain::Domain;
use poorwill_drivers::mediated::CallerMemory;
use poorwill_hart::emulation::{Access, Fault, PhysicalMemory, redirect};

use crate::entry::TrapFrame;
use crate::hart::ThisHart;
use crate::platform::platform;

/// Serves the fault in the frame.
pub(crate) fn access_fault(frame: &mut TrapFrame, hart: ThisHart, domain: &Domain) {
    let fault = Fault {
        cause: csr::read::<{ csr::MCAUSE }>(),
        pc: frame.mepc as u64,
        status: frame.mstatus as u64,
        value: csr::read::<{ csr::MTVAL }>(),
        instruction: csr::try_read::<{ csr::MTINST }>().unwrap_or(0),
        satp: csr::read::<{ csr::SATP }>(),
    };
    let memory = DomainMemory(domain);
    let access = Access::of(&fault, &frame.x, &hart.access(), &memory);
    let served = access.and_then(|access| {
        let loaded = platform().mediated.serve(&access, &memory)?;
        Some(access.complete(&mut frame.x, loaded))
    });
    if let Some(length) = served {
        frame.mepc = frame.mepc.wrapping_add(length);
        return;
    }
    let left = redirect(&fault, &hart.access());
    (frame.mepc, frame.mstatus) = (left.pc as usize, left.status as usize);
}

/// The memory of a domain, as its OS shares it with whoever serves it.
struct DomainMemory<'d>(&'d Domain);

impl DomainMemory<'_> {
    /// The bytes at the address, if they are the domain's.
    fn at<const BYTES: usize>(&self, address: u64) -> Option<*mut [u8; BYTES]> {
        let claimed = self.0.bytes(BYTES as u64, address, 0).ok()?;
        let address = claimed.address() as usize;
        Some(core::ptr::with_exposed_provenance_mut(address))
    }
}

impl PhysicalMemory for DomainMemory<'_> {
    fn read(&self, address: u64, bytes: u64) -> Option<u64> {
        let value = match bytes {
            // SAFETY: claimed bytes are the OS's memory, and aligned, says the caller; its
            // harts may write there meanwhile, so each is read once.
            2 => unsafe { self.at::<2>(address)?.cast::<u16>().read_volatile() }.into(),
            // SAFETY: likewise.
            8 => unsafe { self.at::<8>(address)?.cast::<u64>().read_volatile() },
            _ => return None,
        };
        Some(value)
    }
}

impl CallerMemory for DomainMemory<'_> {
    fn owns(&self, address: u64, length: u64) -> bool {
        self.0.bytes(length, address, 0).is_ok()
    }

    fn read(&self, address: u64) -> Option<[u8; 16]> {
        // SAFETY: claimed bytes are the OS's memory, and any bits are bytes.
        Some(unsafe { self.at(address)?.read_volatile() })
    }

    fn write(&self, address: u64, word: [u8; 4]) {
        if let Some(place) = self.at(address) {
            // What the device did to memory comes before.
            fence::after_device_write();
            // SAFETY: claimed bytes are the OS's memory.
            unsafe { place.write_volatile(word) };
        }
    }
}
