//! The chips' query table.

use arrayvec::ArrayVec;

use super::CfiError;

/// Offsets in the query table, in units of the bank's width.
const MAGIC: u64 = 0x10;
const COMMAND_SET: u64 = 0x13;
const EXTENDED_TABLE: u64 = 0x15;
const TIMES: u64 = 0x1f;
const SIZE: u64 = 0x27;
const REGIONS: u64 = 0x2c;

/// Feature bits in the extended table.
mod feature {
    /// Each block can be locked and unlocked individually and instantly. (Bit 3 has an
    /// older way: one command unlocks all blocks permanently, including those of the
    /// previous stage. This driver does not use it.)
    pub(super) const LOCKS: u32 = 1 << 5;
    /// Burst reads, configured in a register.
    const BURSTS: u32 = 1 << 8;
    /// Partitions that can be read during a write to another one.
    const PARTITIONS: u32 = 1 << 9;
    /// Features that are in no published table.
    const OTHERS: u32 = !0x3ff;
    pub(super) const FORGOTTEN: u32 = LOCKS | BURSTS | PARTITIONS | OTHERS;
}

/// The most regions of equal blocks; chips have up to 3.
const MAX_REGIONS: usize = 8;

/// The default times for a table without them, and the limits for a table's times.
const DEFAULT_PROGRAM_MS: u64 = 100;
const DEFAULT_ERASE_MS: u64 = 16_000;
const MIN_MS: u64 = 10;
const MAX_MS: u64 = 60_000;

/// Consecutive blocks of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The number of blocks.
    pub blocks: u32,
    /// The length of a block over all chips of the bank, in bytes.
    pub block_bytes: u64,
}

/// The chips and blocks of a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The width of a chip's data bus in bytes: 1, 2 or 4.
    pub chip_width: u8,
    /// The length of the bank in bytes.
    pub bytes: u64,
    /// Its blocks from offset 0.
    pub regions: ArrayVec<Region, MAX_REGIONS>,
    /// Each block is locked at power-on, and can be unlocked individually.
    pub can_unlock: bool,
    /// A power-on resets more than the read mode: locks, the modes of partitions, or the
    /// burst configuration.
    pub forgets_more: bool,
    /// The longest time to program a word, in ms.
    pub program_ms: u64,
    /// The longest time to erase a block, in ms.
    pub erase_ms: u64,
}

impl Geometry {
    /// The block with byte `offset`: its first offset and its length. `None` past the end
    /// of the bank.
    #[must_use]
    pub fn block_at(&self, offset: u64) -> Option<(u64, u64)> {
        let mut start = 0;
        for region in &self.regions {
            let end = start + u64::from(region.blocks) * region.block_bytes;
            if offset < end {
                let block = (offset - start) / region.block_bytes;
                return Some((start + block * region.block_bytes, region.block_bytes));
            }
            start = end;
        }
        None
    }
}

/// The query table of a bank in query mode.
pub(super) struct Table<F> {
    /// Reads the byte at an offset, which must be equal in all chips.
    pub(super) byte: F,
    pub(super) chip_width: u8,
    pub(super) chips: u8,
}

impl<F: Fn(u64) -> Result<u8, CfiError>> Table<F> {
    fn word(&self, offset: u64) -> Result<u16, CfiError> {
        Ok(u16::from_le_bytes([
            (self.byte)(offset)?,
            (self.byte)(offset + 1)?,
        ]))
    }

    pub(super) fn is_there(&self) -> bool {
        (MAGIC..)
            .zip(*b"QRY")
            .all(|(offset, letter)| (self.byte)(offset) == Ok(letter))
    }

    pub(super) fn read(&self) -> Result<Geometry, CfiError> {
        match self.word(COMMAND_SET)? {
            0x0001 => {}
            other => return Err(CfiError::CommandSet(other)),
        }
        let (program_ms, erase_ms) = self.times()?;
        let (bytes, regions) = self.blocks()?;
        let features = self.features()?;
        Ok(Geometry {
            chip_width: self.chip_width,
            bytes,
            regions,
            can_unlock: features & feature::LOCKS != 0,
            forgets_more: features & feature::FORGOTTEN != 0,
            program_ms,
            erase_ms,
        })
    }

    /// The length of the bank, and its regions.
    fn blocks(&self) -> Result<(u64, ArrayVec<Region, MAX_REGIONS>), CfiError> {
        let chips = u64::from(self.chips);
        let size = (self.byte)(SIZE)?;
        // A chip of more than 1 GiB has no parallel bus.
        if size > 30 {
            return Err(CfiError::Geometry);
        }
        let bytes = chips << size;
        let mut regions = ArrayVec::new();
        let mut sum = 0;
        for index in 0..u64::from((self.byte)(REGIONS)?) {
            let entry = REGIONS + 1 + 4 * index;
            let blocks = u32::from(self.word(entry)?) + 1;
            let block_bytes = match u64::from(self.word(entry + 2)?) {
                0 => 128 * chips,
                units => 256 * units * chips,
            };
            sum += u64::from(blocks) * block_bytes;
            regions
                .try_push(Region {
                    blocks,
                    block_bytes,
                })
                .map_err(|_| CfiError::Geometry)?;
        }
        if sum != bytes {
            return Err(CfiError::Geometry);
        }
        Ok((bytes, regions))
    }

    /// The longest times of programming and erasing. The table has the typical time and a
    /// factor, both as powers of 2; zero: not specified.
    fn times(&self) -> Result<(u64, u64), CfiError> {
        let time = |index: u64| -> Result<Option<u64>, CfiError> {
            let typical = (self.byte)(TIMES + index)?;
            let factor = (self.byte)(TIMES + 4 + index)?;
            let shift = u32::from(typical) + u32::from(factor);
            Ok((typical != 0).then(|| 1_u64.checked_shl(shift).unwrap_or(u64::MAX)))
        };
        let program = time(0)?.map_or(DEFAULT_PROGRAM_MS, |microseconds| {
            microseconds.div_ceil(1000)
        });
        let erase = time(2)?.unwrap_or(DEFAULT_ERASE_MS);
        Ok((program.clamp(MIN_MS, MAX_MS), erase.clamp(MIN_MS, MAX_MS)))
    }

    /// The features in the extended table; 0 without such a table.
    fn features(&self) -> Result<u32, CfiError> {
        let table = u64::from(self.word(EXTENDED_TABLE)?);
        if table == 0 {
            return Ok(0);
        }
        for (offset, letter) in (table..).zip(*b"PRI") {
            if (self.byte)(offset)? != letter {
                return Ok(0);
            }
        }
        let low = u32::from(self.word(table + 5)?);
        Ok(low | u32::from(self.word(table + 7)?) << 16)
    }
}
