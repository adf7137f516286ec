//! QEMU's firmware configuration device (QEMU, docs/specs/fw_cfg.rst), of which one
//! register makes the device read and write memory: any memory, machine mode's too.
//!
//! The OS's request is copied, checked against the OS's memory, and made from the copy.
//! What the device serves through its other registers it serves as it is.

use crate::Registers;
use crate::mediated::{CallerMemory, Mediator, RegisterAccess, Ruling};

/// Register offsets.
mod register {
    /// Where a request lies, big-endian: its upper half, and the lower one, which
    /// starts it.
    pub(super) const DMA_HIGH: u64 = 0x10;
    pub(super) const DMA_LOW: u64 = 0x14;
    pub(super) const END: u64 = 0x18;
}

/// Bits of a request's control word.
mod control {
    pub(super) const ERROR: u32 = 1 << 0;
    pub(super) const READ: u32 = 1 << 1;
    pub(super) const WRITE: u32 = 1 << 4;
}

/// A request as the device reads it: control, length, and the address of the data in
/// two halves.
pub type RequestWords = [u32; 4];

/// Where the firmware has its copy of a request, for the device alone.
pub trait RequestPlace: Send {
    /// Its physical address.
    fn address(&self) -> u64;

    /// Puts the request there, before any write to the device that follows.
    fn put(&mut self, words: RequestWords);

    /// Its control word, as the device has left it; zero before any request.
    fn control(&self) -> u32;
}

/// The device.
#[derive(Debug)]
pub struct FwCfg<R, P> {
    registers: R,
    place: P,
    /// What the OS has written to the upper half.
    high: u32,
}

impl<R, P> FwCfg<R, P> {
    /// The device behind `registers`, whose requests are made from `place`.
    pub fn new(registers: R, place: P) -> Self {
        FwCfg {
            registers,
            place,
            high: 0,
        }
    }
}

impl<R: Registers<u64>, P: RequestPlace> FwCfg<R, P> {
    /// Makes the request that lies at `address`.
    fn request(&mut self, address: u64, memory: &dyn CallerMemory) {
        let Some(bytes) = memory.read(address) else {
            // There is nowhere to say so.
            return;
        };
        let (words, _) = bytes.as_chunks();
        let words: RequestWords = core::array::from_fn(|word| u32::from_be_bytes(words[word]));
        let result = if self.is_allowed(words, memory) {
            self.carry_out(words)
        } else {
            control::ERROR
        };
        memory.write(address, result.to_be_bytes());
    }

    /// Whether the place is free, and the data the OS's.
    fn is_allowed(&self, words: RequestWords, memory: &dyn CallerMemory) -> bool {
        let [wanted, length, high, low] = words;
        let data = u64::from(high) << 32 | u64::from(low);
        let moves_data = wanted & (control::READ | control::WRITE) != 0;
        has_ended(self.place.control()) && (!moves_data || memory.owns(data, length.into()))
    }

    /// QEMU ends a request within the write that starts it. Where one did not, the
    /// place stays the device's until it does.
    fn carry_out(&mut self, words: RequestWords) -> u32 {
        self.place.put(words);
        (self.registers).write(register::DMA_HIGH, self.place.address().to_be());
        let result = self.place.control();
        if has_ended(result) {
            result
        } else {
            control::ERROR
        }
    }
}

/// Whether the device is done with a request: nothing is left of what was wanted.
fn has_ended(control: u32) -> bool {
    control & !control::ERROR == 0
}

#[allow(clippy::cast_possible_truncation, reason = "halves are cut on purpose")]
impl<R: Registers<u64> + Send, P: RequestPlace> Mediator for FwCfg<R, P> {
    fn rule(
        &mut self,
        offset: u64,
        bytes: u64,
        access: RegisterAccess,
        memory: &dyn CallerMemory,
    ) -> Ruling {
        let is_request = register::DMA_HIGH < offset + bytes && offset < register::END;
        let value = match access {
            RegisterAccess::Store(value) if is_request => value,
            RegisterAccess::Store(_) | RegisterAccess::Load => return Ruling::Pass,
        };
        match (offset, bytes) {
            (register::DMA_HIGH, 4) => self.high = (value as u32).swap_bytes(),
            (register::DMA_LOW, 4) => {
                let low = (value as u32).swap_bytes();
                // The device forgets it, too.
                let high = core::mem::take(&mut self.high);
                self.request(u64::from(high) << 32 | u64::from(low), memory);
            }
            (register::DMA_HIGH, 8) => {
                self.high = 0;
                self.request(value.swap_bytes(), memory);
            }
            _ => return Ruling::Fault,
        }
        Ruling::Done
    }
}

#[cfg(test)]
mod tests;
