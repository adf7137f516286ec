use arrayvec::ArrayVec;
use poorwill_memory::{PAGE_BYTES, PhysRange};
use thiserror::Error;

use super::Pmp;
use super::entry::{ALL_ADDRESSES, Access, Entry, MAX_ENTRIES};
use super::ranges::{Ranges, TooManyRanges, aligned_blocks};

/// Number of entries in a `pmpcfg` register.
pub(super) const ENTRIES_IN_A_WORD: usize = 8;

/// Ranges that S and U mode may access. Addresses outside all of them are closed. If ranges
/// overlap, the first field here decides.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Read-only, in whole units of granularity.
    pub readable: &'a [PhysRange],
    /// Machine mode's own. It is closed in whole pages, since an OS maps pages. Devices that share
    /// a page or lie side by side take one entry.
    pub closed: &'a [PhysRange],
    /// The OS's memory, all open.
    pub memory: &'a [PhysRange],
    /// Addresses of devices: open, except for pages that contain closed addresses.
    pub devices: &'a [PhysRange],
    /// Registers: S and U mode may read and write them, but not execute there, except for pages
    /// that contain closed addresses.
    pub registers: &'a [PhysRange],
}

/// Why a plan cannot be made or does not fit a hart.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    #[error("the hart has no physical memory protection (PMP)")]
    NoPmp,
    #[error("the PMP plan needs {needed} entries, but the hart has {there}")]
    Entries { needed: usize, there: usize },
    #[error(
        "PMP has a granularity of 2^{bits} bytes: \
         {start:#x} to {end:#x} cannot be protected apart from its neighbours"
    )]
    Granularity {
        /// log2 of the granularity in bytes.
        bits: u32,
        start: u64,
        /// The end of the range.
        end: u64,
    },
    #[error(
        "conflicting PMP rules for {start:#x} to {end:#x}: open as the OS's memory, but also closed, read-only or registers"
    )]
    Contradiction {
        start: u64,
        /// The end of the range.
        end: u64,
    },
    #[error("PMP plan: {0:#x} is not a physical address")]
    Address(u64),
    #[error(transparent)]
    TooManyRanges(#[from] TooManyRanges),
}

/// The entries of a hart's PMP, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmpPlan {
    pub(super) entries: ArrayVec<Entry, MAX_ENTRIES>,
    /// log2 of the alignment of every range in bytes.
    pub(super) unit_bits: u32,
}

impl PmpPlan {
    /// Makes the plan with the fewest entries for this PMP.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: the PMP cannot protect these ranges.
    pub fn new(wanted: &Wanted<'_>, pmp: Pmp) -> Result<Self, PlanError> {
        if !pmp.is_there() {
            return Err(PlanError::NoPmp);
        }
        let unit_bits = pmp.granularity_bits.max(PAGE_BYTES.ilog2());
        let layers = Layers::new(wanted, pmp.granularity_bits, unit_bits)?;
        let deny = layers.deny_list()?;
        let allow = layers.allow_list();
        let shorter = allow
            .filter(|allow| allow.needed < deny.needed)
            .unwrap_or(deny);
        let there = pmp.entries.min(MAX_ENTRIES);
        if shorter.needed > there {
            return Err(PlanError::Entries {
                needed: shorter.needed,
                there,
            });
        }
        Ok(PmpPlan {
            entries: shorter.entries,
            unit_bits,
        })
    }

    /// Makes the best plan for this PMP; the flag says whether it closes all ranges. All closed
    /// ranges after the first `needed` may stay open in two cases. There are too few entries; or
    /// the granularity is above a page, so that neighbours would be closed, too.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), for the first `needed` closed ranges.
    pub fn best(wanted: &Wanted<'_>, needed: usize, pmp: Pmp) -> Result<(Self, bool), PlanError> {
        let least = Wanted {
            closed: wanted.closed.get(..needed).unwrap_or(wanted.closed),
            ..*wanted
        };
        if pmp.granularity_bits > PAGE_BYTES.ilog2() {
            return Ok((
                Self::new(&least, pmp)?,
                least.closed.len() == wanted.closed.len(),
            ));
        }
        match Self::new(wanted, pmp) {
            Err(PlanError::Entries { .. }) => Ok((Self::new(&least, pmp)?, false)),
            plan => Ok((plan?, true)),
        }
    }

    /// The plan that opens everything, for a hart with PMP on an unprotected machine: with no entry
    /// the OS would have no access.
    #[must_use]
    pub fn open() -> Self {
        PmpPlan {
            entries: [Entry::everything(Access::All)].into_iter().collect(),
            unit_bits: PAGE_BYTES.ilog2(),
        }
    }

    /// Checks that a hart with this PMP can carry out the plan. The plan may have been made for
    /// another PMP.
    ///
    /// # Errors
    ///
    /// [`PlanError`].
    pub fn fits(&self, pmp: Pmp) -> Result<(), PlanError> {
        let needed = self.entries.len();
        if !pmp.is_there() {
            return Err(PlanError::NoPmp);
        }
        if needed > pmp.entries {
            return Err(PlanError::Entries {
                needed,
                there: pmp.entries,
            });
        }
        if pmp.granularity_bits > self.unit_bits {
            return Err(PlanError::Granularity {
                bits: pmp.granularity_bits,
                start: ALL_ADDRESSES.start,
                end: ALL_ADDRESSES.end,
            });
        }
        Ok(())
    }

    /// Returns whether S-mode may make all accesses of these rights to `bytes` bytes. False if several
    /// entries match them.
    #[must_use]
    pub fn allows(&self, address: u64, bytes: u64, access: Access) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        let mut before = 0;
        for entry in &self.entries {
            if let Some(range) = entry.range(before)
                && range.start < end
                && address < range.end
            {
                return range.start <= address && end <= range.end && entry.permits(access);
            }
            before = entry.address;
        }
        false
    }

    /// The entries, lowest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Values of the even `pmpcfg` registers (privileged specification, figure 36). Registers past
    /// the last entry are included; their entries are off.
    #[must_use]
    pub fn config_words(&self) -> [u64; MAX_ENTRIES / ENTRIES_IN_A_WORD] {
        let mut bytes = [0; MAX_ENTRIES];
        for (byte, entry) in bytes.iter_mut().zip(&self.entries) {
            *byte = entry.config;
        }
        let (words, _) = bytes.as_chunks::<ENTRIES_IN_A_WORD>();
        core::array::from_fn(|index| u64::from_le_bytes(words[index]))
    }
}

/// Read-only, read-write and open ranges in whole units, ascending.
struct Layers {
    readable: Ranges,
    registers: Ranges,
    open: Ranges,
}

impl Layers {
    fn new(wanted: &Wanted<'_>, granularity_bits: u32, unit_bits: u32) -> Result<Self, PlanError> {
        let Wanted {
            readable,
            closed,
            memory,
            devices,
            registers,
        } = *wanted;
        let all = [readable, closed, memory, devices, registers];
        for range in all.into_iter().flatten() {
            if range.end > ALL_ADDRESSES.end {
                return Err(PlanError::Address(range.end - 1));
            }
        }
        let too_coarse = |range: PhysRange| PlanError::Granularity {
            bits: granularity_bits,
            start: range.start,
            end: range.end,
        };
        let readable = Ranges::union(readable.iter().copied())?;
        if unit_bits >= ALL_ADDRESSES.end.ilog2() || readable.shrunk(unit_bits)? != readable {
            return Err(too_coarse(readable.iter().next().unwrap_or(ALL_ADDRESSES)));
        }
        let exact = Ranges::union(closed.iter().copied())?;
        let closed = exact.grown(unit_bits)?;
        let open = Ranges::union(memory.iter().chain(devices).copied())?;
        let open = open.shrunk(unit_bits)?.without(&closed)?;
        for range in memory.iter().filter(|range| range.length() > 0) {
            if exact.overlap(*range) || readable.overlap(*range) {
                return Err(PlanError::Contradiction {
                    start: range.start,
                    end: range.end,
                });
            }
            if !open.contain(*range) {
                return Err(too_coarse(*range));
            }
        }
        let registers = Ranges::union(registers.iter().copied())?;
        let registers = registers.shrunk(unit_bits)?.without(&closed)?;
        if let Some(range) = registers.iter().find(|range| open.overlap(*range)) {
            return Err(PlanError::Contradiction {
                start: range.start,
                end: range.end,
            });
        }
        Ok(Layers {
            readable,
            registers,
            open,
        })
    }

    /// End of the highest open range.
    fn end(&self) -> u64 {
        self.open.iter().last().map_or(0, |range| range.end)
    }

    /// A list that closes some ranges below the end of the open ones, and opens all others below
    /// it. No entry ends at the last address, whose register would need one more bit than there is.
    fn deny_list(&self) -> Result<Draft, PlanError> {
        let end = self.end();
        let mut draft = Draft::default();
        draft.cover(&self.readable, Access::Read);
        draft.cover(&self.registers, Access::ReadWrite);
        let outside = self.open.complement()?;
        let closed = outside.iter().filter(|range| range.start < end);
        draft.cover(&Ranges::union(closed)?, Access::None);
        match end < ALL_ADDRESSES.end {
            true => draft.cover(&Ranges::union([PhysRange { start: 0, end }])?, Access::All),
            false => draft.push(Entry::everything(Access::All)),
        }
        Ok(draft)
    }

    /// A list that opens some ranges and closes all others; `None` if the last address is open, as
    /// for [`deny_list`](Self::deny_list).
    fn allow_list(&self) -> Option<Draft> {
        if self.end() == ALL_ADDRESSES.end {
            return None;
        }
        let mut draft = Draft::default();
        draft.cover(&self.readable, Access::Read);
        draft.cover(&self.registers, Access::ReadWrite);
        draft.cover(&self.open, Access::All);
        Some(draft)
    }
}

/// A plan that may have more entries than a hart can have.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) entries: ArrayVec<Entry, MAX_ENTRIES>,
    pub(super) needed: usize,
}

impl Draft {
    /// Adds an entry. Entries past the last place are only counted; `PmpPlan::new` compares the
    /// count.
    pub(super) fn push(&mut self, entry: Entry) {
        self.needed += 1;
        if !self.entries.is_full() {
            self.entries.push(entry);
        }
    }

    /// Adds entries with this access for all ranges.
    fn cover(&mut self, ranges: &Ranges, access: Access) {
        ranges
            .iter()
            .for_each(|range| self.cover_range(range, access));
    }

    /// Adds entries with this access for a range.
    pub(super) fn cover_range(&mut self, range: PhysRange, access: Access) {
        let blocks = aligned_blocks(range);
        if blocks.clone().count() <= 2 - usize::from(self.has_base(range)) {
            blocks.for_each(|block| self.push(Entry::napot(block, access)));
        } else {
            self.top(range, access);
        }
    }

    /// Returns whether the last register is the start of a range.
    fn has_base(&self, range: PhysRange) -> bool {
        // The register before the first entry counts as zero.
        let before = self.entries.last().map_or(0, |last| last.address);
        before == Entry::base(range.start).address
    }

    /// Adds an entry with this access that ends a range, and its start if that is not there.
    pub(super) fn top(&mut self, range: PhysRange, access: Access) {
        if !self.has_base(range) {
            self.push(Entry::base(range.start));
        }
        self.push(Entry::top(range.end, access));
    }
}
