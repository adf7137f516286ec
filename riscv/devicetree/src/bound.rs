use arrayvec::ArrayVec;
use thiserror::Error;

/// The machine has more items of a kind than a list can hold. This is an error: ignored items would
/// leave a register range open to the OS, or a controller unrestored after a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device tree has more than {most} {what}")]
pub struct TooMany {
    /// The kind of item.
    pub what: &'static str,
    /// Maximum number of items.
    pub most: usize,
}

pub(crate) fn push<T, const N: usize>(
    list: &mut ArrayVec<T, N>,
    what: &'static str,
    one: T,
) -> Result<(), TooMany> {
    list.try_push(one).map_err(|_| TooMany { what, most: N })
}

pub(crate) fn collect<T, const N: usize>(
    what: &'static str,
    all: impl IntoIterator<Item = T>,
) -> Result<ArrayVec<T, N>, TooMany> {
    let mut list = ArrayVec::new();
    all.into_iter()
        .try_for_each(|one| push(&mut list, what, one))?;
    Ok(list)
}
