use arrayvec::ArrayVec;
use thiserror::Error;

/// A machine has more of something than there is room for. What does not fit is
/// never left out in silence: a register range would stay open to the OS, or a
/// controller not be put back after a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device tree has more than {most} {what}")]
pub struct TooMany {
    /// What there is too much of.
    pub what: &'static str,
    /// For how many there is room.
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
