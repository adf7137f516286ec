use poorwill_clock::{Clock, wait_for};
use poorwill_memory::PhysRange;

use super::{NvmeError, Registers};
use crate::mapped::Persistence;
use crate::wait::Wait;

const CAP: u64 = 0x00;
const CAP_REGION: u64 = 1 << 56;

const PMRCAP: u64 = 0xe00;
const PMRCTL: u64 = 0xe04;
const PMRSTS: u64 = 0xe08;
const REGION_REGISTERS: u64 = 0xe1c;

const PMRCTL_EN: u32 = 1;

const PMRSTS_ERR: u32 = 0xff;
const PMRSTS_NRDY: u32 = 1 << 8;
const PMRSTS_HSTS: u32 = 0b111 << 9;

/// A controller's Persistent Memory Region (NVM Express 1.4 and later). The controller
/// maps it at a BAR of its own while this value exists. It needs no queues, and the
/// controller need not be enabled. A drop restores the register.
#[derive(Debug)]
pub struct MemoryRegion<R: Registers, P> {
    registers: R,
    persistence: P,
    found: u32,
}

/// The BAR (2 to 5) of a controller's memory region; `None` without a region. Changes
/// nothing.
///
/// # Errors
///
/// [`NvmeError::Unsupported`] if the controller reports another BAR.
pub fn region_bar(registers: &impl Registers) -> Result<Option<u8>, NvmeError> {
    if registers.length() < REGION_REGISTERS || registers.read64(CAP) & CAP_REGION == 0 {
        return Ok(None);
    }
    match registers.read32(PMRCAP) >> 5 & 0b111 {
        #[allow(clippy::cast_possible_truncation, reason = "it is 5 at most")]
        bar @ 2..=5 => Ok(Some(bar as u8)),
        _ => Err(NvmeError::Unsupported("a memory region in BAR 2 to 5")),
    }
}

impl<R: Registers, P> MemoryRegion<R, P> {
    /// Enables the region; `persistence` makes stores reach it.
    ///
    /// # Errors
    ///
    /// [`NvmeError::Region`] if the region is unhealthy: its contents may be lost, or it
    /// accepts no stores. [`NvmeError::NotReady`].
    pub fn enable(registers: R, persistence: P, clock: &impl Clock) -> Result<Self, NvmeError> {
        let patience = patience(registers.read32(PMRCAP));
        let found = registers.read32(PMRCTL);
        registers.write32(PMRCTL, found | PMRCTL_EN);
        // From here on, the value's drop restores the register after a failure.
        let region = MemoryRegion {
            registers,
            persistence,
            found,
        };
        wait_for(clock, (Wait::Region, u64::from(patience)), || {
            let status = region.registers.read32(PMRSTS);
            (status & PMRSTS_NRDY == 0).then_some(())
        })
        .ok_or(NvmeError::NotReady(patience))?;
        region.health().map_err(NvmeError::Region)?;
        Ok(region)
    }

    /// Whether the region is healthy. This read also makes sure that all earlier stores
    /// have arrived (PMRCAP.PMRWBM).
    fn health(&self) -> Result<(), u16> {
        let status = self.registers.read32(PMRSTS);
        if status & (PMRSTS_ERR | PMRSTS_NRDY | PMRSTS_HSTS) == 0 {
            Ok(())
        } else {
            Err(u16::try_from(status).unwrap_or(u16::MAX))
        }
    }
}

/// The longest time until the region is ready, in milliseconds (PMRTO, in units of half a
/// second or of a minute).
fn patience(capabilities: u32) -> u32 {
    let unit = if capabilities >> 8 & 0b11 == 0 {
        500
    } else {
        60_000
    };
    (capabilities >> 16 & 0xff).max(1) * unit
}

impl<R: Registers, P: Persistence> Persistence for MemoryRegion<R, P> {
    fn write_back(&self, bytes: PhysRange) {
        self.persistence.write_back(bytes);
    }

    fn settle(&self) -> Result<(), u16> {
        self.persistence.settle()?;
        self.health()
    }

    fn is_present(&self) -> bool {
        self.persistence.is_present()
    }
}

impl<R: Registers, P> Drop for MemoryRegion<R, P> {
    fn drop(&mut self) {
        self.registers.write32(PMRCTL, self.found);
    }
}
