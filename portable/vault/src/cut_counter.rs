use crate::VaultError;

/// The machine's count of cuts: which one may be taken, and gone on with.
///
/// A start moves it before any OS runs, so that a cut is of one power-on, and is gone on
/// with at the next or never.
pub trait CutCounter {
    /// The number of the one cut that may be taken, or gone on with; 0: none.
    fn cut(&self) -> u64;

    /// Sees to it that [`CutCounter::next_cut`] has nothing to erase: what takes longer than
    /// a power supply holds up is done now, where nothing is decided by it. True of flash
    /// whose blocks have room for [`MAX_ITEMS`](crate::MAX_ITEMS) items.
    ///
    /// # Errors
    ///
    /// The failure of the flash.
    fn make_room(&mut self) -> Result<(), VaultError>;

    /// From now on no cut up to [`CutCounter::cut`] may be gone on with. Returns the number
    /// of the next one. It is durable before this returns.
    ///
    /// # Errors
    ///
    /// [`VaultError::Exhausted`], or the failure of the flash, after which either number may
    /// hold at the next power-on; no cut is to be taken until a call succeeds.
    fn next_cut(&mut self) -> Result<u64, VaultError>;
}
