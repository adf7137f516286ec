use arrayvec::ArrayVec;
use thiserror::Error;

/// Maximum number of harts in a domain.
pub const MAX_DOMAIN_HARTS: usize = 128;

/// Bits of a hart mask (SBI 3.0, 3.1) on RV64.
const MASK_BITS: u64 = u64::BITS as u64;

/// The `hart_mask_base` that means "all harts" for every mask (SBI 3.0, 3.1).
const ALL_HARTS: u64 = u64::MAX;

/// Why IDs do not form a set of harts.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HartSetError {
    #[error("a domain has more than {MAX_DOMAIN_HARTS} harts, the maximum")]
    TooMany,
    #[error("hart {0} is listed twice")]
    Twice(u64),
}

/// A set of harts by ID. An ID is any 64-bit number: machines with several clusters have gaps
/// between IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HartSet {
    /// Ascending.
    ids: ArrayVec<u64, MAX_DOMAIN_HARTS>,
}

impl HartSet {
    /// Makes a set of IDs in any order.
    ///
    /// # Errors
    ///
    /// [`HartSetError`].
    pub fn new(ids: impl IntoIterator<Item = u64>) -> Result<Self, HartSetError> {
        let mut set = HartSet::default();
        for id in ids {
            (set.ids.try_push(id)).map_err(|_| HartSetError::TooMany)?;
        }
        set.ids.sort_unstable();
        match set.ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(HartSetError::Twice(pair[0])),
            None => Ok(set),
        }
    }

    /// Returns whether the set contains this ID.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// The IDs, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.ids.iter().copied()
    }

    /// The harts of a mask, where bit 0 is the hart with ID 0. Bits of harts outside the set are
    /// ignored.
    pub(crate) fn among(&self, mask: u64) -> HartSelection<'_> {
        let theirs = self.ids().filter(|id| *id < MASK_BITS);
        let mask = mask & theirs.fold(0, |all, id| all | 1 << id);
        HartSelection {
            set: self,
            named: Some((mask, 0)),
        }
    }

    pub(crate) fn all(&self) -> HartSelection<'_> {
        HartSelection {
            set: self,
            named: None,
        }
    }

    /// The harts of a caller's mask and base; `None` if one of them is not in the set, or its ID
    /// overflows.
    pub(crate) fn select(&self, mask: u64, base: u64) -> Option<HartSelection<'_>> {
        if base == ALL_HARTS {
            return Some(self.all());
        }
        let is_there = |bit: u64| (base.checked_add(bit)).is_some_and(|id| self.contains(id));
        bits(mask).all(is_there).then_some(HartSelection {
            set: self,
            named: Some((mask, base)),
        })
    }
}

/// Numbers of the set bits, ascending.
fn bits(mask: u64) -> impl Iterator<Item = u64> {
    let mut left = mask;
    core::iter::from_fn(move || {
        let bit = (left != 0).then(|| u64::from(left.trailing_zeros()))?;
        left &= left - 1;
        Some(bit)
    })
}

/// Harts that a caller named; all belong to its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HartSelection<'d> {
    set: &'d HartSet,
    /// Mask and base; `None`: all harts.
    named: Option<(u64, u64)>,
}

impl<'d> HartSelection<'d> {
    /// Returns whether the caller named the hart with this ID.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        match self.named {
            None => self.set.contains(id),
            Some((mask, base)) => {
                let bit = id.checked_sub(base).filter(|bit| *bit < MASK_BITS);
                bit.is_some_and(|bit| mask >> bit & 1 != 0)
            }
        }
    }

    /// The IDs of the harts, ascending.
    pub fn ids(self) -> impl Iterator<Item = u64> + 'd {
        self.set.ids().filter(move |id| self.contains(*id))
    }
}
