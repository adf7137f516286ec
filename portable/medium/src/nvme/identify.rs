use super::shared::Shared;

/// The data structures of the Identify command (CNS, figure 273).
pub(super) const NAMESPACE: u64 = 0;
pub(super) const CONTROLLER: u64 = 1;
pub(super) const ACTIVE_NAMESPACES: u64 = 2;
pub(super) const DESCRIPTORS: u64 = 3;

/// The NVM command set (CSI, figure 274).
pub(super) const NVM: u8 = 0;

/// Fields of Identify Controller (figure 275).
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerFacts {
    /// The most pages of a transfer; `None`: no limit.
    pub(super) max_pages: Option<usize>,
    pub(super) has_cache: bool,
    /// Whether it supports SGLs for data in whole pages.
    pub(super) takes_sgl: bool,
    /// The highest possible namespace number.
    pub(super) namespaces: u32,
    /// The longest time of a normal shutdown in microseconds (RTD3E); 0: not reported.
    pub(super) shutdown_us: u32,
}

impl ControllerFacts {
    pub(super) fn parse(answer: &Shared<'_>) -> Self {
        let exponent = bits(answer, 77, 8);
        ControllerFacts {
            max_pages: (exponent != 0).then(|| 1 << exponent.min(30)),
            has_cache: bits(answer, 525, 8) & 1 == 1,
            takes_sgl: matches!(bits(answer, 536, 2), 0b01 | 0b10),
            namespaces: bits(answer, 516, 32),
            shutdown_us: bits(answer, 88, 32),
        }
    }
}

/// A controller's shutdown facts (figure 275).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownFacts {
    /// The longest time of a normal shutdown in microseconds (RTD3 entry latency); 0: not
    /// reported.
    pub normal_us: u32,
    /// Whether completed writes may be volatile: a normal shutdown writes them, an abrupt one
    /// need not.
    pub has_cache: bool,
}

/// A namespace as described by its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its number (NSID), from 1.
    pub id: u32,
    /// The number of its blocks; 0 if the controller does not describe it.
    pub blocks: u64,
    /// The length of a block without metadata, in bytes; 0 if the format is unknown.
    pub block_bytes: u32,
    /// The length of a block's metadata in bytes.
    pub metadata_bytes: u16,
}

/// Parses the description of namespace `id` (NVM Command Set, figure 97).
pub(super) fn namespace(answer: &Shared<'_>, id: u32) -> Namespace {
    let formatted = bits(answer, 26, 8);
    let formats = bits(answer, 25, 8) + 1;
    // Bits 6:5 are valid only if there are more formats than bits 3:0 can number.
    let high = if formats > 16 {
        formatted >> 5 & 0b11
    } else {
        0
    };
    let format = (formatted & 0b1111 | high << 4) as usize;
    let block_shift = bits(answer, 128 + 4 * format + 2, 8);
    Namespace {
        id,
        blocks: answer.get(0),
        block_bytes: 1u32
            .checked_shl(block_shift)
            .filter(|&bytes| bytes > 1)
            .unwrap_or(0),
        #[allow(clippy::cast_possible_truncation, reason = "16 bits were asked for")]
        metadata_bytes: bits(answer, 128 + 4 * format, 16) as u16,
    }
}

/// The namespace number at `index` of a list; 0 after the last.
pub(super) fn listed(answer: &Shared<'_>, index: usize) -> u32 {
    bits(answer, 4 * index, 32)
}

/// The `count` bits (up to 32) from the byte at `offset`, within one word.
#[allow(clippy::cast_possible_truncation, reason = "masked to 32 bits at most")]
pub(super) fn bits(answer: &Shared<'_>, offset: usize, count: u32) -> u32 {
    let word = answer.get(offset / 8) >> (offset % 8 * 8);
    (word & ((1 << count) - 1)) as u32
}

#[allow(clippy::cast_possible_truncation, reason = "8 bits were asked for")]
pub(super) fn bytes<const N: usize>(answer: &Shared<'_>, offset: usize) -> [u8; N] {
    core::array::from_fn(|index| bits(answer, offset + index, 8) as u8)
}
