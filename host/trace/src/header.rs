//! The first part of a trace.

use std::fmt;
use std::str::FromStr;

use poorwill_memory::checksum;

use crate::VERSION;
use crate::error::TraceError;

const MAGIC: [u8; 8] = *b"PWTRACE\0";

/// Bytes before the harts' lines, and of each of these.
const FIXED: usize = 152;
const HART: usize = 32;

/// The most harts.
const MOST_HARTS: u32 = 512;

/// Places of fields.
const AT_VERSION: usize = 8;
const AT_LENGTH: usize = 12;
const AT_CHECKSUM: usize = 16;
const AT_CONTENTS: usize = 24;
const AT_RECORDS: usize = 32;
const AT_BLOCKS: usize = 40;
const AT_HARTS: usize = 48;
const AT_CACHE: usize = 52;
const AT_WAYS: usize = 56;
const AT_WHOLE: usize = 60;
const AT_SKIPPED: usize = 64;
const AT_WINDOW: usize = 72;
const AT_LINES: usize = 80;
const AT_GUEST: usize = 88;
const AT_PROGRAM: usize = 120;

/// Bytes that are read first: they tell the version and the header's length.
pub(crate) const FIRST: usize = AT_CHECKSUM;

/// A SHA-256 digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

/// What was known before the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Harts.
    pub harts: u32,
    /// Bytes and ways of each hart's two caches.
    pub cache: u32,
    /// See `cache`.
    pub ways: u32,
    /// Instructions of the busiest hart from the mark to the window.
    pub skipped: u64,
    /// Instructions of the busiest hart in the window.
    pub window: u64,
    /// Digest of the guest: its kernel and its initramfs.
    pub guest: Digest,
    /// Digest of the program: its name and its command line.
    pub program: Digest,
}

/// Counts of a hart in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HartCounts {
    /// Instructions.
    pub instructions: u64,
    /// Accesses to memory by loads.
    pub loads: u64,
    /// Accesses to memory by stores.
    pub stores: u64,
    /// Lines of code that it entered.
    pub fetches: u64,
}

/// The header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What was known before.
    pub setting: Setting,
    /// Number of records.
    pub records: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Lines of memory: one more than the highest line of a record.
    pub lines: u64,
    /// Whether the window is whole: the machine ran to its end.
    pub is_whole: bool,
    /// Checksum of all contents. Two recordings of the same program have the same one.
    pub contents: u64,
    /// Each hart's counts.
    pub harts: Vec<HartCounts>,
}

impl Header {
    /// Bytes of a header for that number of harts.
    pub(crate) fn length(harts: u32) -> usize {
        FIXED + HART * harts as usize
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::length(self.setting.harts)];
        bytes[..8].copy_from_slice(&MAGIC);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let setting = &self.setting;
        for (at, value) in [
            (AT_VERSION, VERSION),
            (AT_LENGTH, length),
            (AT_HARTS, setting.harts),
            (AT_CACHE, setting.cache),
            (AT_WAYS, setting.ways),
            (AT_WHOLE, self.is_whole.into()),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [
            (AT_CONTENTS, self.contents),
            (AT_RECORDS, self.records),
            (AT_BLOCKS, self.blocks),
            (AT_SKIPPED, setting.skipped),
            (AT_WINDOW, setting.window),
            (AT_LINES, self.lines),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[AT_GUEST..AT_PROGRAM].copy_from_slice(&setting.guest.0);
        bytes[AT_PROGRAM..FIXED].copy_from_slice(&setting.program.0);
        for (place, hart) in bytes[FIXED..].chunks_exact_mut(HART).zip(&self.harts) {
            let values = [hart.instructions, hart.loads, hart.stores, hart.fetches];
            for (place, value) in place.chunks_exact_mut(8).zip(values) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
        let sum = checksum::of_bytes(&bytes);
        bytes[AT_CHECKSUM..AT_CONTENTS].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header's length, from its first bytes.
    pub(crate) fn read_length(first: &[u8; FIRST]) -> Result<usize, TraceError> {
        if first[..8] != MAGIC {
            return Err(TraceError::NoTrace);
        }
        let version = word(first, AT_VERSION);
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        let length = word(first, AT_LENGTH) as usize;
        let is_right = (FIXED..=Self::length(MOST_HARTS)).contains(&length)
            && (length - FIXED).is_multiple_of(HART);
        if is_right {
            Ok(length)
        } else {
            Err(TraceError::Header)
        }
    }

    /// Reads a header of the length that it tells.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut blank = bytes.to_vec();
        blank[AT_CHECKSUM..AT_CONTENTS].fill(0);
        let harts = word(bytes, AT_HARTS);
        if checksum::of_bytes(&blank) != long(bytes, AT_CHECKSUM)
            || bytes.len() != Self::length(harts)
        {
            return Err(TraceError::Header);
        }
        let digest = |at: usize| {
            let mut digest = Digest::default();
            digest.0.copy_from_slice(&bytes[at..at + 32]);
            digest
        };
        let counts = |hart: &[u8]| HartCounts {
            instructions: long(hart, 0),
            loads: long(hart, 8),
            stores: long(hart, 16),
            fetches: long(hart, 24),
        };
        Ok(Header {
            setting: Setting {
                harts,
                cache: word(bytes, AT_CACHE),
                ways: word(bytes, AT_WAYS),
                skipped: long(bytes, AT_SKIPPED),
                window: long(bytes, AT_WINDOW),
                guest: digest(AT_GUEST),
                program: digest(AT_PROGRAM),
            },
            records: long(bytes, AT_RECORDS),
            blocks: long(bytes, AT_BLOCKS),
            lines: long(bytes, AT_LINES),
            is_whole: word(bytes, AT_WHOLE) != 0,
            contents: long(bytes, AT_CONTENTS),
            harts: bytes[FIXED..].chunks_exact(HART).map(counts).collect(),
        })
    }
}

/// A number of four bytes. The caller has checked the length.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// A number of eight bytes. The caller has checked the length.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0.iter()).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDigest;

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let mut digest = Digest::default();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoDigest);
        }
        for (at, byte) in digest.0.iter_mut().enumerate() {
            let digits = &text[2 * at..2 * at + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoDigest)?;
        }
        Ok(digest)
    }
}
