//! The first part of a trace.

use std::fmt;
use std::mem;
use std::str::FromStr;

use poorwill_memory::checksum;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::VERSION;
use crate::error::TraceError;
use crate::returns::{CLASSES, Returns, are_possible};

const MAGIC: [u8; 8] = *b"PWTRACE\0";

/// The most harts.
const MOST_HARTS: u32 = 512;

/// Bytes of a line.
const LINE: u64 = 64;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The most instructions of a hart. With the slowest clock these are 65 days, and a model's time in
/// picoseconds reaches 213.
const MOST_INSTRUCTIONS: u64 = 1 << 48;

/// The first bytes of a header: they tell the version and the header's length.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawStart {
    magic: [u8; 8],
    version: U32,
    length: U32,
}

/// The header before the harts' lines. The checksum is that of the whole header, with zero in its
/// place.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    start: RawStart,
    checksum: U64,
    contents: U64,
    records: U64,
    blocks: U64,
    harts: U32,
    cache: U32,
    ways: U32,
    is_whole: U32,
    skipped: U64,
    window: U64,
    memory: U64,
    lines: U64,
    pages: U64,
    guest: [u8; 32],
    program: [u8; 32],
}

/// A hart's line.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHart {
    instructions: U64,
    loads: U64,
    stores: U64,
    fetches: U64,
    returns: [RawReturns; CLASSES],
}

/// Returns of a class.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReturns {
    count: U64,
    lines: U64,
}

const FIXED: usize = size_of::<RawHeader>();
const HART: usize = size_of::<RawHart>();

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
    /// Bytes of the machine's RAM.
    pub memory: u64,
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
    /// Returns of programs' functions, by [`class`](crate::class).
    pub returns: [Returns; CLASSES],
}

/// What a recording has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Pages of 4 KiB that programs accessed from the mark on, with code.
    pub pages: u64,
    /// Each hart's counts in the window.
    pub harts: Vec<HartCounts>,
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
    /// Pages of 4 KiB that programs accessed from the mark on, with code.
    pub pages: u64,
    /// Each hart's counts.
    pub harts: Vec<HartCounts>,
}

impl Header {
    /// Bytes of a header for that number of harts.
    pub(crate) fn length(harts: u32) -> usize {
        FIXED + HART * harts as usize
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let setting = &self.setting;
        let length = u32::try_from(Self::length(setting.harts)).unwrap_or(u32::MAX);
        let mut raw = RawHeader {
            start: RawStart {
                magic: MAGIC,
                version: VERSION.into(),
                length: length.into(),
            },
            checksum: U64::ZERO,
            contents: self.contents.into(),
            records: self.records.into(),
            blocks: self.blocks.into(),
            harts: setting.harts.into(),
            cache: setting.cache.into(),
            ways: setting.ways.into(),
            is_whole: u32::from(self.is_whole).into(),
            skipped: setting.skipped.into(),
            window: setting.window.into(),
            memory: setting.memory.into(),
            lines: self.lines.into(),
            pages: self.pages.into(),
            guest: setting.guest.0,
            program: setting.program.0,
        };
        let line = |hart: &HartCounts| RawHart {
            instructions: hart.instructions.into(),
            loads: hart.loads.into(),
            stores: hart.stores.into(),
            fetches: hart.fetches.into(),
            returns: hart.returns.map(|returns| RawReturns {
                count: returns.count.into(),
                lines: returns.lines.into(),
            }),
        };
        let lines: Vec<RawHart> = self.harts.iter().map(line).collect();
        raw.checksum = sum(&raw, lines.as_bytes()).into();
        [raw.as_bytes(), lines.as_bytes()].concat()
    }

    /// The header's length, from its first bytes.
    pub(crate) fn read_length(start: &RawStart) -> Result<usize, TraceError> {
        if start.magic != MAGIC {
            return Err(TraceError::NoTrace);
        }
        if start.version != VERSION {
            return Err(TraceError::Version(start.version.get()));
        }
        let length = start.length.get() as usize;
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
        let (mut raw, lines) =
            RawHeader::read_from_prefix(bytes).map_err(|_| TraceError::Header)?;
        let lines = <[RawHart]>::ref_from_bytes(lines).map_err(|_| TraceError::Header)?;
        let checksum = mem::replace(&mut raw.checksum, U64::ZERO);
        if checksum != sum(&raw, lines.as_bytes()) || raw.harts.get() as usize != lines.len() {
            return Err(TraceError::Header);
        }
        if raw.lines.get() > raw.memory.get() / LINE || raw.pages.get() > raw.memory.get() / PAGE {
            return Err(TraceError::Contents(
                "its lines or pages are beyond its memory",
            ));
        }
        if (lines.iter()).any(|hart| hart.instructions.get() > MOST_INSTRUCTIONS) {
            return Err(TraceError::Contents("a hart has too many instructions"));
        }
        let counts = |hart: &RawHart| HartCounts {
            instructions: hart.instructions.get(),
            loads: hart.loads.get(),
            stores: hart.stores.get(),
            fetches: hart.fetches.get(),
            returns: hart.returns.map(|returns| Returns {
                count: returns.count.get(),
                lines: returns.lines.get(),
            }),
        };
        let harts: Vec<_> = lines.iter().map(counts).collect();
        if !harts.iter().all(|hart| are_possible(&hart.returns)) {
            return Err(TraceError::Contents("its returns have other lines"));
        }
        Ok(Header {
            setting: Setting {
                harts: raw.harts.get(),
                cache: raw.cache.get(),
                ways: raw.ways.get(),
                skipped: raw.skipped.get(),
                window: raw.window.get(),
                memory: raw.memory.get(),
                guest: Digest(raw.guest),
                program: Digest(raw.program),
            },
            records: raw.records.get(),
            blocks: raw.blocks.get(),
            lines: raw.lines.get(),
            is_whole: raw.is_whole != 0,
            contents: raw.contents.get(),
            pages: raw.pages.get(),
            harts,
        })
    }
}

/// The checksum of a header whose own checksum is zero.
fn sum(raw: &RawHeader, lines: &[u8]) -> u64 {
    checksum::of_bytes(&[raw.as_bytes(), lines].concat())
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
