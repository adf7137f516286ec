use poorwill_memory::PAGE_BYTES;

use super::context::MAX_WORDS;
use super::memory::{TableMemory, TablePages};
use super::register::PAGE_NUMBER;
use super::{Capabilities, DeviceId, IommuError};

/// Bits of a device ID that one upper level selects (2.1).
const LEVEL_BITS: u32 = 9;
/// Bits of a device ID.
const MAX_BITS: u32 = 24;
const MAX_LEVELS: u32 = 3;

/// A non-leaf entry is valid (2.1.1).
const VALID: u64 = 1;

const WORD_BYTES: u64 = size_of::<u64>() as u64;

/// The device directory in memory (2.1): a radix tree of pages with contexts as leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    pub(super) root: u64,
    /// 1 to 3.
    pub(super) levels: u32,
    has_wide_contexts: bool,
}

impl Directory {
    /// An empty directory that holds `highest`.
    pub(super) fn new(
        memory: &impl TableMemory,
        pages: &mut TablePages,
        capabilities: &Capabilities,
        highest: DeviceId,
    ) -> Result<Self, IommuError> {
        let mut directory = Directory {
            root: pages.take(memory)?,
            levels: 1,
            has_wide_contexts: capabilities.has_wide_contexts,
        };
        directory.levels = directory.levels_for(highest)?;
        Ok(directory)
    }

    /// Words of a context.
    pub(super) fn words(&self) -> u64 {
        let wide = MAX_WORDS as u64;
        if self.has_wide_contexts {
            wide
        } else {
            wide / 2
        }
    }

    /// Bits of a device ID that select a context in its page.
    fn leaf_bits(&self) -> u32 {
        (PAGE_BYTES / WORD_BYTES / self.words()).trailing_zeros()
    }

    /// Bits of a device ID that a directory of `levels` levels translates.
    fn bits(&self, levels: u32) -> u32 {
        (self.leaf_bits() + LEVEL_BITS * (levels - 1)).min(MAX_BITS)
    }

    /// The fewest levels for a device.
    pub(super) fn levels_for(&self, device: DeviceId) -> Result<u32, IommuError> {
        let mut levels = 1..=MAX_LEVELS;
        let found = levels.find(|levels| device.0 >> self.bits(*levels) == 0);
        found.ok_or(IommuError::DeviceId(device))
    }

    /// This directory below a root with more levels. No entry of it moves.
    pub(super) fn widened(
        &self,
        memory: &impl TableMemory,
        pages: &mut TablePages,
        levels: u32,
    ) -> Result<Self, IommuError> {
        let mut wider = *self;
        while wider.levels < levels {
            let root = pages.take(memory)?;
            memory.write(root, non_leaf(wider.root));
            wider.root = root;
            wider.levels += 1;
        }
        Ok(wider)
    }

    /// The address of a device's context; `None` where the directory has no page for it.
    pub(super) fn find(&self, memory: &impl TableMemory, device: DeviceId) -> Option<u64> {
        self.walk(memory, device, || None)
    }

    /// The address of a device's context. Adds missing pages.
    pub(super) fn find_or_add(
        &self,
        memory: &impl TableMemory,
        pages: &mut TablePages,
        device: DeviceId,
    ) -> Result<u64, IommuError> {
        let place = self.walk(memory, device, || pages.take(memory).ok());
        place.ok_or(IommuError::NoPages)
    }

    /// Walks down to a context (2.3.1). `add` gives a page for a missing entry.
    fn walk(
        &self,
        memory: &impl TableMemory,
        device: DeviceId,
        mut add: impl FnMut() -> Option<u64>,
    ) -> Option<u64> {
        if device.0 >> self.bits(self.levels) != 0 {
            return None;
        }
        let device = u64::from(device.0);
        let mut page = self.root;
        for level in (1..self.levels).rev() {
            let shift = self.leaf_bits() + LEVEL_BITS * (level - 1);
            let index = device >> shift & ((1 << LEVEL_BITS) - 1);
            let place = page + index * WORD_BYTES;
            let found = memory.read(place);
            page = if found & VALID == 0 {
                let new = add()?;
                memory.write(place, non_leaf(new));
                new
            } else {
                found >> PAGE_NUMBER << PAGE_BYTES.trailing_zeros()
            };
        }
        let index = device & ((1 << self.leaf_bits()) - 1);
        Some(page + index * self.words() * WORD_BYTES)
    }
}

/// An entry for the directory page at `page`.
fn non_leaf(page: u64) -> u64 {
    (page / PAGE_BYTES) << PAGE_NUMBER | VALID
}
