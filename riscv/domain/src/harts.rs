use arrayvec::ArrayVec;
use thiserror::Error;

/// How many harts a domain may have.
pub const MAX_DOMAIN_HARTS: usize = 128;

/// Bits of a hart mask (SBI 3.0, 3.1), on a machine of 64 bits.
const MASK_BITS: u64 = u64::BITS as u64;

/// The `hart_mask_base` that says "all harts", whatever the mask (SBI 3.0, 3.1).
const ALL_HARTS: u64 = u64::MAX;

/// Why IDs make no set of harts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HartSetError {
    /// More of them than [`MAX_DOMAIN_HARTS`].
    #[error("a domain has more than {MAX_DOMAIN_HARTS} harts")]
    TooMany,
    /// One comes twice.
    #[error("hart {0} is named twice")]
    Twice(u64),
}

/// A set of harts by their IDs, which may be any numbers of 64 bits: machines of
/// several clusters leave gaps between theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HartSet {
    /// Ascending.
    ids: ArrayVec<u64, MAX_DOMAIN_HARTS>,
}

impl HartSet {
    /// The set of the harts with these IDs, in any order.
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

    /// Whether the hart with that ID is in it.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Its IDs, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.ids.iter().copied()
    }

    /// The harts that a mask names, where bit 0 is the hart with ID 0. Bits of harts outside
    /// the set are ignored.
    pub(crate) fn among(&self, mask: u64) -> HartSelection<'_> {
        let theirs = self.ids().filter(|id| *id < MASK_BITS);
        let mask = mask & theirs.fold(0, |all, id| all | 1 << id);
        HartSelection {
            set: self,
            named: Some((mask, 0)),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> HartSelection<'_> {
        HartSelection {
            set: self,
            named: None,
        }
    }

    /// The harts that a caller's mask and base name; `None` when one of them is not
    /// in the set, or would have an ID beyond 64 bits.
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

/// The numbers of the bits that are set, ascending.
fn bits(mask: u64) -> impl Iterator<Item = u64> {
    let mut left = mask;
    core::iter::from_fn(move || {
        let bit = (left != 0).then(|| u64::from(left.trailing_zeros()))?;
        left &= left - 1;
        Some(bit)
    })
}

/// Harts that a caller named, each of which is its domain's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HartSelection<'d> {
    set: &'d HartSet,
    /// Mask and base; `None`: all.
    named: Option<(u64, u64)>,
}

impl<'d> HartSelection<'d> {
    /// Whether the hart with that ID was named.
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
