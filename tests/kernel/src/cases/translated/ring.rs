//! A ring buffer, as of a device's events: bytes go in and out by copies.

use super::program::Program;
use crate::{arch::kernel_space::KernelSpace, random::Random};

/// Bytes of the buffer, a power of two.
const BYTES: usize = 256;
/// Most bytes of a record.
const RECORD: usize = 64;
const RECORDS: usize = 32;

/// The buffer. Its ends count all bytes that ever went in and out.
struct Buffer {
    bytes: [u8; BYTES],
    put: u32,
    got: u32,
}

impl Buffer {
    /// Bytes that are in it.
    fn used(&self) -> usize {
        self.put.wrapping_sub(self.got) as usize
    }

    /// Puts bytes in until it is full, and returns their number.
    #[inline(never)]
    fn put(&mut self, from: &[u8]) -> usize {
        let length = from.len().min(BYTES - self.used());
        let at = self.put as usize % BYTES;
        let first = length.min(BYTES - at);
        self.bytes[at..at + first].copy_from_slice(&from[..first]);
        self.bytes[..length - first].copy_from_slice(&from[first..length]);
        self.put = self.put.wrapping_add(length as u32);
        length
    }

    /// Takes bytes out until it or the buffer ends, and returns their number.
    #[inline(never)]
    fn get(&mut self, to: &mut [u8]) -> usize {
        let length = to.len().min(self.used());
        let at = self.got as usize % BYTES;
        let first = length.min(BYTES - at);
        to[..first].copy_from_slice(&self.bytes[at..at + first]);
        to[first..length].copy_from_slice(&self.bytes[..length - first]);
        self.got = self.got.wrapping_add(length as u32);
        length
    }
}

pub(super) struct Ring {
    buffer: Buffer,
    /// Records that go in, and how many bytes of each.
    records: [[u8; RECORD]; RECORDS],
    lengths: [u8; RECORDS],
    /// What comes out.
    out: [u8; RECORD],
}

impl Program for Ring {
    const NAME: &str = "ring";

    fn begin(random: &mut Random, _: &KernelSpace) -> Self {
        let mut byte = || random.next() as u8;
        Ring {
            buffer: Buffer {
                bytes: [0; BYTES],
                put: 0,
                got: 0,
            },
            records: core::array::from_fn(|_| core::array::from_fn(|_| byte())),
            lengths: core::array::from_fn(|_| byte() % RECORD as u8 + 1),
            out: [0; RECORD],
        }
    }

    fn round(&mut self, round: usize) -> u64 {
        let record = round % RECORDS;
        let length = usize::from(self.lengths[record]);
        let put = self.buffer.put(&self.records[record][..length]);
        let wanted = usize::from(self.lengths[RECORDS - 1 - record]);
        let got = self.buffer.get(&mut self.out[..wanted]);
        let some = self.out[put % RECORD];
        (put << 16 | got << 8) as u64 | u64::from(some)
    }
}
