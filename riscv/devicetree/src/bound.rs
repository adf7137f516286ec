use arrayvec::ArrayVec;
use thiserror::Error;

/// The machine has more of something than there is room for. That is an error, as ignoring
/// the rest would leave a register range open to the OS, or a controller unrestored after a
/// sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device tree has more than {most} {what}")]
pub struct TooMany {
    /// What there is too much of.
    pub what: &'static str,
    /// How many there is room for.
    pub most: usize,
}

/// Adds one to the list of `what`.
pub(crate) fn push<T, const N: usize>(
    list: &mut ArrayVec<T, N>,
    what: &'static str,
    one: T,
) -> Result<(), TooMany> {
    list.try_push(one).map_err(|_| TooMany { what, most: N })
}

/// A list of all that there is of `what`.
pub(crate) fn collect<T, const N: usize>(
    what: &'static str,
    all: impl IntoIterator<Item = T>,
) -> Result<ArrayVec<T, N>, TooMany> {
    let mut list = ArrayVec::new();
    all.into_iter()
        .try_for_each(|one| push(&mut list, what, one))?;
    Ok(list)
}
