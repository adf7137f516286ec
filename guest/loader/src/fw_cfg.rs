//! QEMU's configuration device (QEMU, docs/specs/fw_cfg.rst). The loader uses only DMA requests.
//! The firmware mediates the device, and checks the memory of each request.

use core::arch::asm;

use poorwill_loader::{DeviceError, Item, Items, Piece};
use poorwill_memory::to_usize;

/// Offset of the register that takes the address of a request, big-endian.
const REQUEST: u64 = 0x10;

/// Numbers of the device's items (QEMU, include/standard-headers/linux/qemu_fw_cfg.h and
/// hw/nvram/fw_cfg.h). The items with lengths are little-endian.
mod key {
    pub(super) const SIGNATURE: u16 = 0x00;
    pub(super) const FEATURES: u16 = 0x01;
    pub(super) const KERNEL_LENGTH: u16 = 0x08;
    pub(super) const INITRD_LENGTH: u16 = 0x0b;
    pub(super) const KERNEL: u16 = 0x11;
    pub(super) const INITRD: u16 = 0x12;
    pub(super) const COMMAND_LINE_LENGTH: u16 = 0x14;
    pub(super) const COMMAND_LINE: u16 = 0x15;
}

/// Bits of a request's control word.
mod control {
    pub(super) const READ: u32 = 1 << 1;
    pub(super) const SELECT: u32 = 1 << 3;
}

const SIGNATURE: [u8; 4] = *b"QEMU";
/// Feature bit: the device accepts DMA requests.
const HAS_DMA: u32 = 1 << 1;

/// The configuration device.
#[derive(Debug)]
pub(crate) struct FwCfg {
    registers: u64,
}

impl FwCfg {
    /// The device whose registers are at `registers`.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Safety
    ///
    /// `registers` must be the address of the registers of such a device.
    pub(crate) unsafe fn new(registers: u64) -> Result<Self, DeviceError> {
        let device = FwCfg { registers };
        let mut signature = [0; 4];
        device.fill(key::SIGNATURE, &mut signature)?;
        if signature != SIGNATURE || device.number(key::FEATURES)? & HAS_DMA == 0 {
            return Err(DeviceError::Unknown);
        }
        Ok(device)
    }

    /// Loads a piece into `piece.place`, and fills the rest of it with zeros.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Safety
    ///
    /// No other code may use the memory of `piece.place`.
    pub(crate) unsafe fn load(&self, piece: &Piece) -> Result<(), DeviceError> {
        self.read_item(key_of(piece.item), piece.bytes, piece.place.start)?;
        let moved = u64::from(piece.bytes);
        let rest =
            core::ptr::with_exposed_provenance_mut::<u8>(to_usize(piece.place.start + moved));
        // SAFETY: as the caller says.
        unsafe { rest.write_bytes(0, to_usize(piece.place.length() - moved)) };
        Ok(())
    }

    fn number(&self, key: u16) -> Result<u32, DeviceError> {
        let mut bytes = [0; 4];
        self.fill(key, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn fill(&self, key: u16, into: &mut [u8]) -> Result<(), DeviceError> {
        let length = u32::try_from(into.len()).map_err(|_| DeviceError::Refused(u32::MAX))?;
        let address = into.as_mut_ptr().expose_provenance() as u64;
        self.read_item(key, length, address)
    }

    /// Reads an item from its start. The device completes the request before the register write
    /// that starts it returns.
    fn read_item(&self, key: u16, length: u32, address: u64) -> Result<(), DeviceError> {
        let wanted = u32::from(key) << 16 | control::SELECT | control::READ;
        #[repr(C, align(16))]
        struct Request {
            control: u32,
            length: u32,
            address: u64,
        }
        let mut request = Request {
            control: wanted.to_be(),
            length: length.to_be(),
            address: address.to_be(),
        };
        let place = (&raw mut request).expose_provenance() as u64;
        let register =
            core::ptr::with_exposed_provenance_mut::<u64>(to_usize(self.registers + REQUEST));
        fence();
        // SAFETY: the caller of `new` promised that the device's registers are there. The request
        // is in our memory. It names our memory, or memory that no other code uses.
        unsafe { register.write_volatile(place.to_be()) };
        fence();
        // SAFETY: the device may have written to the request. It has completed it by now.
        let left = unsafe { (&raw const request.control).read_volatile() };
        match left {
            0 => Ok(()),
            _ => Err(DeviceError::Refused(length)),
        }
    }
}

/// Orders memory accesses before and after a request.
fn fence() {
    // SAFETY: a fence changes no state.
    unsafe { asm!("fence iorw, iorw") };
}

fn key_of(item: Item) -> u16 {
    match item {
        Item::Kernel => key::KERNEL,
        Item::Initrd => key::INITRD,
        Item::CommandLine => key::COMMAND_LINE,
    }
}

impl Items for FwCfg {
    fn length(&mut self, item: Item) -> Result<u32, DeviceError> {
        self.number(match item {
            Item::Kernel => key::KERNEL_LENGTH,
            Item::Initrd => key::INITRD_LENGTH,
            Item::CommandLine => key::COMMAND_LINE_LENGTH,
        })
    }

    fn read(&mut self, item: Item, into: &mut [u8]) -> Result<(), DeviceError> {
        self.fill(key_of(item), into)
    }
}
