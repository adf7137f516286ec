//! What the chips say of themselves.

use arrayvec::ArrayVec;

use super::CfiError;

/// Offsets into the query table, in units of the bank's width.
const MAGIC: u64 = 0x10;
const COMMAND_SET: u64 = 0x13;
const EXTENDED_TABLE: u64 = 0x15;
const TIMES: u64 = 0x1f;
const SIZE: u64 = 0x27;
const REGIONS: u64 = 0x2c;

/// Bits of the extended table's features.
mod feature {
    /// Each block is locked and unlocked by itself, in no time. (Bit 3, the older way, has
    /// one command that unlocks all blocks for good, the previous stage's included; that is
    /// not done here.)
    pub(super) const LOCKS: u32 = 1 << 5;
    /// Bursts, by a register that configures them.
    const BURSTS: u32 = 1 << 8;
    /// Partitions that are read while another one is written.
    const PARTITIONS: u32 = 1 << 9;
    /// Features that no published table has.
    const OTHERS: u32 = !0x3ff;
    pub(super) const FORGOTTEN: u32 = LOCKS | BURSTS | PARTITIONS | OTHERS;
}

/// Most regions of blocks of one size that are accepted; chips have up to 3.
const MAX_REGIONS: usize = 8;

/// Times where the table gives none, and the bounds of those that it gives.
const DEFAULT_PROGRAM_MS: u64 = 100;
const DEFAULT_ERASE_MS: u64 = 16_000;
const MIN_MS: u64 = 10;
const MAX_MS: u64 = 60_000;

/// Blocks of one size that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// How many.
    pub blocks: u32,
    /// Bytes of each, over all chips of the bank.
    pub block_bytes: u64,
}

/// What a bank is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a chip's data bus: 1, 2 or 4.
    pub chip_width: u8,
    /// Bytes in the bank.
    pub bytes: u64,
    /// Its blocks, from offset 0.
    pub regions: ArrayVec<Region, MAX_REGIONS>,
    /// Blocks are locked one by one, at every power-on, and can be unlocked.
    pub can_unlock: bool,
    /// There is more that a power-on resets than the mode in which it is read: locks,
    /// partitions each in a mode of its own, a register that configures bursts.
    pub forgets_more: bool,
    /// The longest that programming a word takes, in ms.
    pub program_ms: u64,
    /// The longest that erasing a block takes, in ms.
    pub erase_ms: u64,
}

impl Geometry {
    /// The block that holds `offset`: its first byte and its length. `None`
    /// beyond the bank's end.
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

/// The query table of a bank, which is in query mode.
pub(super) struct Table<F> {
    /// The byte at an offset, the same from all chips.
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

    /// Whether a query table is there.
    pub(super) fn is_there(&self) -> bool {
        (MAGIC..)
            .zip(*b"QRY")
            .all(|(offset, letter)| (self.byte)(offset) == Ok(letter))
    }

    /// Reads the table.
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

    /// Bytes in the bank, and the blocks that make them up.
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

    /// The longest times of programming and erasing: typical time and factor,
    /// both as powers of 2; zero: not given.
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

    /// The extended table's features; none where there is no such table.
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
