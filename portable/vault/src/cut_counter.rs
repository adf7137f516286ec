use crate::VaultError;

/// The machine's count of cuts: the number of the one valid cut.
///
/// Each start raises the count before an OS runs. So a cut belongs to one power-on, and
/// only the next start may resume it.
pub trait CutCounter {
    /// The number of the one cut that may be taken or resumed; 0: none.
    fn cut(&self) -> u64;

    /// Erases flash now if necessary, so that [`CutCounter::next_cut`] need not: an erase
    /// takes longer than a power supply's hold-up time. This requires flash blocks with
    /// room for [`MAX_ITEMS`](crate::MAX_ITEMS) items.
    ///
    /// # Errors
    ///
    /// The failure of the flash.
    fn make_room(&mut self) -> Result<(), VaultError>;

    /// Makes all cuts up to [`CutCounter::cut`] invalid and returns the number of the
    /// next one. The change is durable before this returns.
    ///
    /// # Errors
    ///
    /// [`VaultError::Exhausted`], or the failure of the flash. After a failure either
    /// number may hold at the next power-on: take no cut until a call succeeds.
    fn next_cut(&mut self) -> Result<u64, VaultError>;
}
