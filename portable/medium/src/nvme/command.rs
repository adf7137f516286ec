#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    /// PRP entries 1 and 2 (4.1.1).
    Pages([u64; 2]),
    /// An SGL descriptor (4.1.2).
    Scattered([u64; 2]),
}

const PSDT_SGL: u64 = 0b01 << 14;

/// The SGL descriptor of one contiguous block.
pub(super) fn data_block(address: u64, bytes: u64) -> [u64; 2] {
    [address, bytes]
}

/// The SGL descriptor of a list with this number of descriptors, as the last list.
pub(super) fn last_segment(address: u64, descriptors: usize) -> [u64; 2] {
    [address, (0x3 << 60) | (16 * descriptors as u64)]
}

/// A submission queue entry (Base Specification, figure 87), as eight words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) opcode: u8,
    pub(super) namespace: u32,
    pub(super) data: Data,
    /// Command dwords 10 and 11, the lower one first.
    pub(super) low: u64,
    /// Command dwords 12 and 13.
    pub(super) high: u64,
}

impl Command {
    pub(super) const CREATE_SUBMISSIONS: u8 = 0x01;
    pub(super) const CREATE_COMPLETIONS: u8 = 0x05;
    pub(super) const IDENTIFY: u8 = 0x06;
    pub(super) const SET_FEATURES: u8 = 0x09;

    pub(super) const FLUSH: u8 = 0x00;
    pub(super) const WRITE: u8 = 0x01;
    pub(super) const READ: u8 = 0x02;

    pub(super) fn new(opcode: u8, namespace: u32) -> Self {
        Command {
            opcode,
            namespace,
            data: Data::Pages([0; 2]),
            low: 0,
            high: 0,
        }
    }

    /// The queue entry, with `id` to identify its completion.
    pub(super) fn entry(&self, id: u16) -> [u64; 8] {
        let head = u64::from(self.opcode) | u64::from(id) << 16 | u64::from(self.namespace) << 32;
        let (kind, [first, second]) = match self.data {
            Data::Pages(entries) => (0, entries),
            Data::Scattered(descriptor) => (PSDT_SGL, descriptor),
        };
        [head | kind, 0, 0, first, second, self.low, self.high, 0]
    }
}

/// A completion queue entry (figure 90).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) id: u16,
    pub(super) queue: u16,
    /// Status code type (bits 10:8) and status code (bits 7:0); 0 is success.
    pub(super) status: u16,
}

impl Completion {
    /// Parses dwords 2 and 3. Also returns their phase tag.
    #[allow(clippy::cast_possible_truncation, reason = "fields of the word")]
    pub(super) fn parse(word: u64) -> (bool, Self) {
        let completion = Completion {
            queue: (word >> 16) as u16,
            id: (word >> 32) as u16,
            status: (word >> 49) as u16 & 0x7ff,
        };
        (word >> 48 & 1 == 1, completion)
    }
}
