//! Virtio functions (Virtual I/O Device Version 1.2, 4.1.4, 5 and 6): their kind, the place of their
//! status, and whether an IOMMU sees their DMA.

use super::capability::find_where;
use super::register::{ID, VENDOR_CAPABILITY};
use super::{ConfigSpace, Function, PciError, bar_address};

const VENDOR: u32 = 0x1af4;
/// The devices of that vendor that are virtio's.
const DEVICES: core::ops::RangeInclusive<u32> = 0x1000..=0x107f;

/// The first device number of the new interface; the kind is added to it (4.1.2.1).
const MODERN: u32 = 0x1040;

/// Types of capabilities: the common registers, and a window to them in configuration space.
const COMMON: u32 = 1;
const WINDOW: u32 = 5;

/// Fields of a capability: the BAR, the offset in it, the length; in a window also the data.
const BAR: u16 = 4;
const OFFSET: u16 = 8;
const LENGTH: u16 = 12;
const DATA: u16 = 16;

/// Common registers: the number of a word of features, that word, and the device's status.
const FEATURE_SELECT: u32 = 0;
const FEATURES: u32 = 4;
const STATUS: u64 = 0x14;

/// `VIRTIO_F_ACCESS_PLATFORM`, bit 33: the device uses the platform's addresses.
const ACCESS_PLATFORM: (u32, u32) = (1, 1 << 1);

/// A kind of virtio device (5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VirtioKind(u32);

impl VirtioKind {
    const FILE_SYSTEM_9P: Self = VirtioKind(9);
    const GPU: Self = VirtioKind(16);
    const INPUT: Self = VirtioKind(18);

    /// The kind of a function with these vendor and device; `None` if it is no virtio device.
    pub(super) fn of(id: u32) -> Option<Self> {
        let device = id >> 16;
        let is_virtio = id & 0xffff == VENDOR && DEVICES.contains(&device);
        is_virtio.then(|| match device {
            MODERN.. => VirtioKind(device - MODERN),
            // Of the transitional numbers only this one is the kind's own (4.1.2.3).
            0x1009 => Self::FILE_SYSTEM_9P,
            _ => VirtioKind(0),
        })
    }

    /// Returns whether Linux's driver has no suspend.
    pub(super) fn has_no_suspend(self) -> bool {
        [Self::FILE_SYSTEM_9P, Self::GPU].contains(&self)
    }

    /// Returns whether a driver sets up the device again that it has not reset. Linux's driver of
    /// input devices resets them since a version between 6.12 and 7.2.
    pub(super) fn is_set_up_again(self) -> bool {
        self == Self::INPUT
    }
}

/// The bus address of a virtio device's status, a byte; `None` if the device has only the old
/// interface, or no address.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
// Not by the window in configuration space: QEMU 10.0 ends with a failed assertion after such a
// read of a function on bus 0 of `virt`.
pub(super) fn status_address(
    config: &impl ConfigSpace,
    function: Function,
) -> Result<Option<u64>, PciError> {
    let common = find_where(config, function, |header| {
        header & 0xff == u32::from(VENDOR_CAPABILITY) && header >> 24 == COMMON
    })?;
    Ok(common.and_then(|common| {
        let [bar, ..] = config.read32(function, common + BAR).to_le_bytes();
        let offset = u64::from(config.read32(function, common + OFFSET));
        let base = (bar < 6).then(|| bar_address(config, function, bar))??;
        base.checked_add(offset)?.checked_add(STATUS)
    }))
}

/// Returns whether the function is a virtio device that accesses memory without regard to an
/// IOMMU, or that does not tell.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
pub fn bypasses_iommu(config: &impl ConfigSpace, function: Function) -> Result<bool, PciError> {
    if VirtioKind::of(config.read32(function, ID)).is_none() {
        return Ok(false);
    }
    let of_type = |kind: u32| {
        find_where(config, function, move |header| {
            header & 0xff == u32::from(VENDOR_CAPABILITY) && header >> 24 == kind
        })
    };
    let (Some(common), Some(window)) = (of_type(COMMON)?, of_type(WINDOW)?) else {
        return Ok(true);
    };
    config.write32(
        function,
        window + BAR,
        config.read32(function, common + BAR),
    );
    config.write32(function, window + LENGTH, 4);
    let base = config.read32(function, common + OFFSET);
    let point_to = |register: u32| {
        config.write32(function, window + OFFSET, base.wrapping_add(register));
    };
    let (word, bit) = ACCESS_PLATFORM;
    point_to(FEATURE_SELECT);
    config.write32(function, window + DATA, word);
    point_to(FEATURES);
    Ok(config.read32(function, window + DATA) & bit == 0)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const FUNCTION: Function = Function {
        bus: 1,
        device: 2,
        function: 0,
    };

    /// A virtio function with these features.
    struct Virtio {
        id: u32,
        features: u64,
        has_window: bool,
        /// The window's offset, and the selected word.
        state: RefCell<(u32, u32)>,
    }

    impl Virtio {
        fn new(features: u64) -> Self {
            Virtio {
                id: 0x1042 << 16 | VENDOR,
                features,
                has_window: true,
                state: RefCell::default(),
            }
        }

        fn bypasses_iommu(&self) -> Result<bool, PciError> {
            bypasses_iommu(self, FUNCTION)
        }
    }

    const BASE: u32 = 0x3000;

    impl ConfigSpace for Virtio {
        fn read32(&self, _: Function, register: u16) -> u32 {
            let (offset, select) = *self.state.borrow();
            let next = if self.has_window { 0x60 } else { 0 };
            match register {
                0 => self.id,
                4 => 1 << 20,
                0x34 => 0x40,
                0x40 => COMMON << 24 | next << 8 | u32::from(VENDOR_CAPABILITY),
                0x44 => 4,
                0x20 => 0x8000_0004,
                0x24 => 4,
                0x48 => BASE,
                0x60 => WINDOW << 24 | u32::from(VENDOR_CAPABILITY),
                0x70 if offset == BASE + FEATURES => {
                    u32::try_from(self.features >> (32 * select) & 0xffff_ffff).unwrap()
                }
                _ => 0,
            }
        }

        fn write32(&self, _: Function, register: u16, value: u32) {
            let mut state = self.state.borrow_mut();
            match register {
                0x68 => state.0 = value,
                0x70 if state.0 == BASE + FEATURE_SELECT => state.1 = value,
                _ => {}
            }
        }
    }

    #[test]
    fn a_function_tells_by_its_features() {
        assert_eq!(Virtio::new(1 << 33).bypasses_iommu(), Ok(false));
        assert_eq!(Virtio::new(!(1 << 33)).bypasses_iommu(), Ok(true));
    }

    #[test]
    fn a_function_that_does_not_tell_bypasses() {
        let silent = Virtio {
            has_window: false,
            ..Virtio::new(1 << 33)
        };
        assert_eq!(silent.bypasses_iommu(), Ok(true));
    }

    #[test]
    fn other_functions_do_not_bypass() {
        let other = Virtio {
            id: 0x0010_1b36,
            ..Virtio::new(0)
        };
        assert_eq!(other.bypasses_iommu(), Ok(false));
    }

    #[test]
    fn the_status_is_in_the_bar_of_the_common_registers() {
        let address = status_address(&Virtio::new(0), FUNCTION);
        assert_eq!(address, Ok(Some(0x4_8000_0000 + u64::from(BASE) + 0x14)));
    }

    #[test]
    fn kinds_are_told_by_their_numbers() {
        let kind = |device: u32| VirtioKind::of(device << 16 | VENDOR);
        assert_eq!(kind(0x1009), Some(VirtioKind::FILE_SYSTEM_9P));
        assert_eq!(kind(0x1049), Some(VirtioKind::FILE_SYSTEM_9P));
        assert_eq!(kind(0x1052), Some(VirtioKind::INPUT));
        assert_eq!(kind(0x1000), Some(VirtioKind(0)));
        assert_eq!(kind(0x1110), None, "shared memory");
        assert_eq!(VirtioKind::of(0x1049_1b36), None);
    }
}
