use arrayvec::ArrayVec;
use poorwill_memory::{PAGE_BYTES, PhysRange};
use thiserror::Error;

use super::Pmp;
use super::entry::{ALL_ADDRESSES, Access, Entry, MAX_ENTRIES};
use super::ranges::{Ranges, TooManyRanges, aligned_blocks};

/// Entries whose configuration one `pmpcfg` register holds.
pub(super) const ENTRIES_IN_A_WORD: usize = 8;

/// What S and U mode are to find. What lies in none of these is closed; where they
/// overlap the one that is named first here decides.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// May be read, and neither written nor executed. Whole units of granularity.
    pub readable: &'a [PhysRange],
    /// Machine mode's own. It is closed in whole pages, as an OS maps pages, and
    /// devices that share one or lie side by side take one entry.
    pub closed: &'a [PhysRange],
    /// The OS's memory: all of it is open.
    pub memory: &'a [PhysRange],
    /// Addresses of devices: open, but for what shares a page with what is closed.
    pub devices: &'a [PhysRange],
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The hart has no PMP.
    #[error("it has no physical memory protection")]
    NoPmp,
    /// The plan has more entries than the hart.
    #[error("{needed} entries of physical memory protection are needed, and it has {there}")]
    Entries {
        /// How many the plan takes.
        needed: usize,
        /// How many there are.
        there: usize,
    },
    /// The hart protects coarser units than the plan's.
    #[error(
        "physical memory protection has a granularity of 2^{bits} bytes: \
         {start:#x} to {end:#x} cannot be told from what lies beside it"
    )]
    Granularity {
        /// log2 of the granularity in bytes.
        bits: u32,
        /// The range's first address.
        start: u64,
        /// The first address behind it.
        end: u64,
    },
    /// A range of the OS's memory that machine mode takes for its own.
    #[error("memory from {start:#x} to {end:#x} is to be open and closed")]
    Contradiction {
        /// The range's first address.
        start: u64,
        /// The first address behind it.
        end: u64,
    },
    /// A range that no physical address reaches.
    #[error("{0:#x} is no physical address")]
    Address(u64),
    /// More ranges than there is room for.
    #[error(transparent)]
    TooManyRanges(#[from] TooManyRanges),
}

/// The entries that a hart is to have, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmpPlan {
    entries: ArrayVec<Entry, MAX_ENTRIES>,
    /// log2 of the bytes to which every range is aligned.
    unit_bits: u32,
}

impl PmpPlan {
    /// The plan with the fewest entries for a hart with this PMP.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: what is wanted cannot be had.
    pub fn new(wanted: &Wanted<'_>, pmp: Pmp) -> Result<Self, PlanError> {
        if !pmp.is_there() {
            return Err(PlanError::NoPmp);
        }
        let unit_bits = pmp.granularity_bits.max(PAGE_BYTES.ilog2());
        let layers = Layers::new(wanted, pmp.granularity_bits, unit_bits)?;
        let [deny, allow] = [layers.deny_list()?, layers.allow_list()];
        let shorter = if allow.needed < deny.needed {
            allow
        } else {
            deny
        };
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

    /// The best plan that a hart like this can have: `wanted`, of which all but the first
    /// `needed` closed ranges may be left open where there are too few entries, or where a
    /// hart that protects coarser units than pages would close what lies beside. Says whether
    /// none is.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), for the ranges that are needed.
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

    /// The plan that opens everything: for a hart that has PMP on a machine that is
    /// not protected, where no entry would mean no access.
    #[must_use]
    pub fn open() -> Self {
        PmpPlan {
            entries: [Entry::everything(Access::All)].into_iter().collect(),
            unit_bits: PAGE_BYTES.ilog2(),
        }
    }

    /// Whether a hart with this PMP, which need not be the one that the plan was
    /// made for, can carry it out.
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

    /// The entries, lowest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What the even `pmpcfg` registers hold (privileged specification, figure 36),
    /// those behind the last entry included, whose entries are off.
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

/// What is wanted, in whole units and put in order.
struct Layers {
    readable: Ranges,
    open: Ranges,
}

impl Layers {
    fn new(wanted: &Wanted<'_>, granularity_bits: u32, unit_bits: u32) -> Result<Self, PlanError> {
        let [readable, closed, memory, devices] = [
            wanted.readable,
            wanted.closed,
            wanted.memory,
            wanted.devices,
        ];
        for range in [readable, closed, memory, devices].into_iter().flatten() {
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
        Ok(Layers { readable, open })
    }

    /// Everything is open but what is named.
    fn deny_list(&self) -> Result<Draft, PlanError> {
        let mut draft = Draft::default();
        draft.cover(&self.readable, Access::Read);
        draft.cover(&self.open.complement()?, Access::None);
        draft.push(Entry::everything(Access::All));
        Ok(draft)
    }

    /// Nothing is open but what is named.
    fn allow_list(&self) -> Draft {
        let mut draft = Draft::default();
        draft.cover(&self.readable, Access::Read);
        draft.cover(&self.open, Access::All);
        draft
    }
}

/// A plan that may have more entries than there can be.
#[derive(Default)]
struct Draft {
    entries: ArrayVec<Entry, MAX_ENTRIES>,
    needed: usize,
}

impl Draft {
    /// Adds an entry. Those behind the last place are counted alone: whoever made
    /// the draft compares the count.
    fn push(&mut self, entry: Entry) {
        self.needed += 1;
        if !self.entries.is_full() {
            self.entries.push(entry);
        }
    }

    /// Gives an access to all of the ranges.
    fn cover(&mut self, ranges: &Ranges, access: Access) {
        for range in ranges.iter() {
            let blocks = aligned_blocks(range);
            let base = Entry::base(range.start);
            // The register before the first entry counts as zero.
            let before = self.entries.last().map_or(0, |last| last.address);
            let has_base = before == base.address;
            if blocks.clone().count() <= 2 - usize::from(has_base) {
                blocks.for_each(|block| self.push(Entry::napot(block, access)));
                continue;
            }
            if !has_base {
                self.push(base);
            }
            self.push(Entry::top(range.end, access));
        }
    }
}
