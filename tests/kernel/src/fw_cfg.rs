//! QEMU's configuration device, by which a test gives one power-on another case. The device tree,
//! to which an image may be bound, stays unchanged.

use crate::{check, mmio};
use arrayvec::ArrayString;
use core::sync::atomic::{Ordering, fence};

/// The item, set by `-fw_cfg name=opt/poorwill/test,string=…`.
const NAME: &str = "opt/poorwill/test";

const FILE_DIRECTORY: u16 = 0x19;
const DATA: usize = 0;
const SELECTOR: usize = 8;
const REQUEST: usize = 0x10;

/// A request's control word: to read from the start of the file directory.
pub(crate) const READ_DIRECTORY: u32 = (FILE_DIRECTORY as u32) << 16 | 1 << 3 | 1 << 1;
/// To write there.
pub(crate) const WRITE_DIRECTORY: u32 = (FILE_DIRECTORY as u32) << 16 | 1 << 3 | 1 << 4;
/// What is left there of a request that is refused.
pub(crate) const ERROR: u32 = 1;

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

/// How many items there are.
pub(crate) fn count(device: usize) -> u32 {
    select(device, FILE_DIRECTORY);
    u32::from_be_bytes(bytes(device))
}

/// Has the device move `length` bytes to or from `address`; returns the control word
/// afterwards.
pub(crate) fn request(
    device: usize,
    control: u32,
    length: u32,
    address: usize,
    by_halves: bool,
) -> u32 {
    let [high, low] = halves(address);
    let mut words = [control.to_be(), length.to_be(), high, low];
    let place = words.as_mut_ptr().expose_provenance();
    // The request is in memory before the device is told.
    fence(Ordering::SeqCst);
    if by_halves {
        let [high, low] = halves(place);
        mmio::write32(device + REQUEST, high);
        mmio::write32(device + REQUEST + 4, low);
    } else {
        request_at(device, place);
    }
    fence(Ordering::SeqCst);
    // SAFETY: the device may have written there, and is done.
    u32::from_be(unsafe { words.as_ptr().read_volatile() })
}

/// The two halves of an address, each as the device has it: big-endian.
fn halves(address: usize) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = address.to_be_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

/// Starts the request that lies at `place`.
pub(crate) fn request_at(device: usize, place: usize) {
    mmio::write64(device + REQUEST, place.to_be() as u64);
}

/// How many bytes of the file directory are read by [`begin`] and after it.
const PREFIX: usize = 8;

/// The device's signature, item 0.
const SIGNATURE: [u8; 4] = *b"QEMU";

/// Reads the first bytes of the file directory, and leaves the rest for later; returns how
/// many were read. An address's upper half is written, of a request that is never made.
pub(crate) fn begin(device: usize, count: usize) -> usize {
    mmio::write32(device + REQUEST, u32::to_be(1));
    select(device, FILE_DIRECTORY);
    (0..count).for_each(|_| _ = mmio::read8(device + DATA));
    count
}

/// Checks that the bytes behind those follow, and no others.
pub(crate) fn check_goes_on(device: usize, read: usize) {
    let rest: [u8; PREFIX] = bytes(device);
    select(device, FILE_DIRECTORY);
    (0..read).for_each(|_| _ = mmio::read8(device + DATA));
    let expected: [u8; PREFIX] = bytes(device);
    check!(
        rest == expected && rest[..4] != SIGNATURE,
        "the item goes on with {rest:x?}, not {expected:x?}"
    );
}

/// Checks that the upper half of an address still counts, of a request at `place`: it is for
/// memory that nobody has.
pub(crate) fn check_half(device: usize, place: usize) {
    const UNTOUCHED: u32 = 1 << 2;
    mmio::write32(place, UNTOUCHED.to_be());
    mmio::write32(place + 4, 0);
    fence(Ordering::SeqCst);
    let [_, low] = halves(place);
    mmio::write32(device + REQUEST + 4, low);
    fence(Ordering::SeqCst);
    let control = u32::from_be(mmio::read32(place));
    check!(
        control == UNTOUCHED,
        "a request was made at an address with another upper half: {control:#x}"
    );
}

fn select(device: usize, item: u16) {
    mmio::write16(device + SELECTOR, item.to_be());
}

fn bytes<const N: usize>(device: usize) -> [u8; N] {
    core::array::from_fn(|_| mmio::read8(device + DATA))
}
