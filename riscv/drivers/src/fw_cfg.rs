//! QEMU's firmware configuration device (QEMU, docs/specs/fw_cfg.rst). Through one register it
//! reads and writes any memory, including machine mode's.
//!
//! The OS's request is copied and checked against the OS's memory; the device gets the copy.
//! Accesses to its other registers pass unchanged. No register shows the selected item or the read
//! position, so the driver tracks both from the OS's accesses.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Registers;
use crate::mediated::{CallerMemory, Mediator, RegisterAccess, Ruling};

mod register {
    /// Next bytes of the selected item.
    pub(super) const DATA: u64 = 0;
    /// Selects an item by two bytes, big-endian.
    pub(super) const SELECTOR: u64 = 8;
    /// Address of a request, big-endian: the upper half, then the lower half, which starts the
    /// request.
    pub(super) const DMA_HIGH: u64 = 0x10;
    pub(super) const DMA_LOW: u64 = 0x14;
    pub(super) const END: u64 = 0x18;
}

/// Bits of a request's control word.
mod control {
    pub(super) const ERROR: u32 = 1 << 0;
    pub(super) const READ: u32 = 1 << 1;
    pub(super) const SKIP: u32 = 1 << 2;
    pub(super) const SELECT: u32 = 1 << 3;
    pub(super) const WRITE: u32 = 1 << 4;
    /// Lowest bit of the item to select.
    pub(super) const ITEM_SHIFT: u32 = 16;
}

/// The state that the OS has set in the device, and that of the mediator.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FwCfgState {
    /// Read position in the item, in bytes; past the item's end it means the end.
    offset: u32,
    /// Upper half of a request's address.
    high: u32,
    item: u16,
    _unused: [u8; 2],
}

/// A request as the device reads it: control, length, and the two halves of the data's address.
pub type RequestWords = [u32; 4];

/// Memory for the firmware's copy of a request, which only the device accesses.
pub trait RequestPlace: Send {
    /// Physical address.
    fn address(&self) -> u64;

    /// Stores the request, ordered before later writes to the device.
    fn put(&mut self, words: RequestWords);

    /// Control word as the device left it; zero before the first request.
    fn control(&self) -> u32;
}

/// The device.
#[derive(Debug)]
pub struct FwCfg<R, P> {
    registers: R,
    place: P,
    state: FwCfgState,
    /// The OS has written to an item.
    is_written: bool,
}

impl<R, P> FwCfg<R, P> {
    /// The device with these registers; its requests are made from `place`.
    pub fn new(registers: R, place: P) -> Self {
        FwCfg {
            registers,
            place,
            state: FwCfgState::default(),
            is_written: false,
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "it takes fields of words")]
impl<R: Registers<u64> + Registers<u16>, P: RequestPlace> FwCfg<R, P> {
    /// Selects the first item, as after a reset.
    pub fn start(&mut self) {
        self.put_back(&FwCfgState::default());
    }

    /// Captures the OS's state. `None` if it cannot be restored: the OS has written to an item, or
    /// a request has not ended.
    pub fn capture(&self) -> Option<FwCfgState> {
        (!self.is_written && has_ended(self.place.control())).then_some(self.state)
    }

    /// Restores the state; returns whether the device accepted it.
    pub fn put_back(&mut self, state: &FwCfgState) -> bool {
        self.registers.write(register::SELECTOR, state.item.to_be());
        self.state = *state;
        state.offset == 0 || {
            // The device stops at the item's end.
            let left = self.ask([control::SKIP, state.offset, 0, 0]);
            left == 0
        }
    }

    fn request(&mut self, address: u64, memory: &dyn CallerMemory) {
        let Some(bytes) = memory.read(address) else {
            // The control word, which would take an error, is not the OS's memory.
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

    /// Returns whether the device does not use the copy any more, and the data is the OS's memory.
    fn is_allowed(&self, words: RequestWords, memory: &dyn CallerMemory) -> bool {
        let [wanted, length, high, low] = words;
        let data = u64::from(high) << 32 | u64::from(low);
        let moves_data = wanted & (control::READ | control::WRITE) != 0;
        has_ended(self.place.control()) && (!moves_data || memory.owns(data, length.into()))
    }

    /// QEMU ends a request within the write that starts it. While a request has not ended, the
    /// device uses the copy, and no other request is made.
    fn carry_out(&mut self, words: RequestWords) -> u32 {
        let [wanted, length, ..] = words;
        if wanted & control::SELECT != 0 {
            self.select((wanted >> control::ITEM_SHIFT) as u16);
        }
        if wanted & (control::READ | control::WRITE | control::SKIP) != 0 {
            self.state.offset = self.state.offset.saturating_add(length);
        }
        self.is_written |= wanted & control::WRITE != 0;
        self.ask(words)
    }

    fn select(&mut self, item: u16) {
        (self.state.item, self.state.offset) = (item, 0);
    }

    /// Tracks an access that the device serves. The device ignores unaligned accesses, and those of
    /// another width.
    fn note(&mut self, offset: u64, bytes: u64, access: RegisterAccess) {
        match (offset, bytes, access) {
            (register::SELECTOR, 2, RegisterAccess::Store(value)) => {
                self.select((value as u16).swap_bytes());
            }
            (register::DATA, _, RegisterAccess::Load) => {
                self.state.offset = self.state.offset.saturating_add(bytes as u32);
            }
            _ => {}
        }
    }

    fn ask(&mut self, words: RequestWords) -> u32 {
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

/// Returns whether the device has ended a request: no command bit is left.
fn has_ended(control: u32) -> bool {
    control & !control::ERROR == 0
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the casts keep the lower half"
)]
impl<R: Registers<u64> + Registers<u16> + Send, P: RequestPlace> Mediator for FwCfg<R, P> {
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
            RegisterAccess::Store(_) | RegisterAccess::Load => {
                self.note(offset, bytes, access);
                return Ruling::Pass;
            }
        };
        match (offset, bytes) {
            (register::DMA_HIGH, 4) => self.state.high = (value as u32).swap_bytes(),
            (register::DMA_LOW, 4) => {
                let low = (value as u32).swap_bytes();
                // The device resets it, too.
                let high = core::mem::take(&mut self.state.high);
                self.request(u64::from(high) << 32 | u64::from(low), memory);
            }
            (register::DMA_HIGH, 8) => {
                self.state.high = 0;
                self.request(value.swap_bytes(), memory);
            }
            _ => return Ruling::Fault,
        }
        Ruling::Done
    }
}

#[cfg(test)]
mod tests;
