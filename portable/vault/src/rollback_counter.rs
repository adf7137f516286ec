use crate::VaultError;

/// The machine's rollback counter, as the store needs it: which generations were ever used,
/// and whether the image of the latest may wake.
pub trait RollbackCounter {
    /// The number of the latest sleep begun on this machine; 0: none.
    fn generation(&self) -> u64;

    /// The generation whose image may wake; `None`: no image may.
    fn armed(&self) -> Option<u64>;

    /// The generation of the machine's snapshot; `None`: no snapshot may wake.
    fn kept(&self) -> Option<u64>;

    /// Reserves a generation for a new sleep, above [`RollbackCounter::generation`] and above
    /// `above`, and disarms. It is durable before this returns, so no generation is ever used
    /// twice: nonces depend on that. One that failed to be reserved is not reused either.
    ///
    /// # Errors
    ///
    /// [`VaultError::Exhausted`] when there is no number above `above`, else
    /// the failure of the flash. Then there is no new number, and no image may
    /// wake as far as this counter knows.
    fn reserve(&mut self, above: u64) -> Result<u64, VaultError>;

    /// From now on the image of `generation` may wake. Does nothing when it may
    /// already.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotReserved`] unless `generation` was reserved last and
    /// has not been armed and disarmed since; else the failure of the flash,
    /// after which only a successful [`RollbackCounter::disarm`] says that the image may
    /// not wake.
    fn arm(&mut self, generation: u64) -> Result<(), VaultError>;

    /// No image may wake any more. Writes nothing if it is certain that none
    /// may anyway.
    ///
    /// # Errors
    ///
    /// The failure of the flash: the image may still wake at the next power-on.
    fn disarm(&mut self) -> Result<(), VaultError>;

    /// From now on the snapshot of `generation` may wake, at every power-on, and
    /// none of another generation. With `None`, none may.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotReserved`] unless `generation` was reserved last and
    /// has not been armed and disarmed since, or is kept already; else the
    /// failure of the flash, after which only a successful call says what is kept.
    fn keep(&mut self, generation: Option<u64>) -> Result<(), VaultError>;
}
