//! Whether an IOMMU sees a virtio function's DMA (Virtual I/O Device Version 1.2, 4.1.4 and 6).

use super::capability::find_where;
use super::register::{ID, VENDOR_CAPABILITY};
use super::{ConfigSpace, Function, PciError};

const VENDOR: u32 = 0x1af4;
/// The devices of that vendor that are virtio's.
const DEVICES: core::ops::RangeInclusive<u32> = 0x1000..=0x107f;

/// Types of capabilities: the common registers, and a window to them in configuration space.
const COMMON: u32 = 1;
const WINDOW: u32 = 5;

/// Fields of a capability: the BAR, the offset in it, the length; in a window also the data.
const BAR: u16 = 4;
const OFFSET: u16 = 8;
const LENGTH: u16 = 12;
const DATA: u16 = 16;

/// Common registers: the number of a word of features, and that word.
const FEATURE_SELECT: u32 = 0;
const FEATURES: u32 = 4;

/// `VIRTIO_F_ACCESS_PLATFORM`, bit 33: the device uses the platform's addresses.
const ACCESS_PLATFORM: (u32, u32) = (1, 1 << 1);

/// Returns whether the function is a virtio device that accesses memory without regard to an
/// IOMMU, or that does not tell.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
pub fn bypasses_iommu(config: &impl ConfigSpace, function: Function) -> Result<bool, PciError> {
    let id = config.read32(function, ID);
    if id & 0xffff != VENDOR || !DEVICES.contains(&(id >> 16)) {
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
}
