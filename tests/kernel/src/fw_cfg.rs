//! QEMU's configuration device: how a test gives one power-on another case
//! without a change to the device tree, which an image may be bound to.

use crate::mmio;
use arrayvec::ArrayString;

/// The item, set by `-fw_cfg name=opt/poorwill/test,string=…`.
const NAME: &str = "opt/poorwill/test";

const FILE_DIRECTORY: u16 = 0x19;
const DATA: usize = 0;
const SELECTOR: usize = 8;

/// The item's text, if QEMU was given one.
pub(crate) fn read(device: usize) -> Option<ArrayString<256>> {
    select(device, FILE_DIRECTORY);
    let count = u32::from_be_bytes(bytes(device));
    for _ in 0..count {
        let size = u32::from_be_bytes(bytes(device));
        let item = u16::from_be_bytes(bytes(device));
        let _reserved: [u8; 2] = bytes(device);
        let name: [u8; 56] = bytes(device);
        if name.starts_with(NAME.as_bytes()) && name.get(NAME.len()) == Some(&0) {
            select(device, item);
            let mut text = ArrayString::new();
            (0..size).for_each(|_| text.push(char::from(mmio::read8(device + DATA))));
            return Some(text);
        }
    }
    None
}

fn select(device: usize, item: u16) {
    mmio::write16(device + SELECTOR, item.to_be());
}

fn bytes<const N: usize>(device: usize) -> [u8; N] {
    core::array::from_fn(|_| mmio::read8(device + DATA))
}
