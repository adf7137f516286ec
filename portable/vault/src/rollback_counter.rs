use crate::VaultError;

/// The machine's rollback counter, as the store needs it: the generations in use, and
/// whether the image of the latest may wake.
pub trait RollbackCounter {
    /// The number of the machine's latest sleep; 0: none.
    fn generation(&self) -> u64;

    /// The generation whose image may wake; `None`: no image may.
    fn armed(&self) -> Option<u64>;

    /// The generation of the machine's snapshot; `None`: no snapshot may wake.
    fn kept(&self) -> Option<u64>;

    /// Reserves a generation for a new sleep, higher than [`RollbackCounter::generation`]
    /// and `above`, and disarms. The change is durable before this returns, so no
    /// generation is used twice: nonces depend on that. A failed reservation is not
    /// reused either.
    ///
    /// # Errors
    ///
    /// [`VaultError::Exhausted`] if there is no number above `above`, else the failure of
    /// the flash. After an error there is no new number, and this counter permits no
    /// image to wake.
    fn reserve(&mut self, above: u64) -> Result<u64, VaultError>;

    /// Permits the image of `generation` to wake. Does nothing if it may wake already.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotReserved`] unless `generation` was reserved last and has not been
    /// armed and disarmed since; else the failure of the flash. After a failure the image
    /// may wake until [`RollbackCounter::disarm`] succeeds.
    fn arm(&mut self, generation: u64) -> Result<(), VaultError>;

    /// Forbids all images to wake. Writes nothing if no image may wake already.
    ///
    /// # Errors
    ///
    /// The failure of the flash: the image may still wake at the next power-on.
    fn disarm(&mut self) -> Result<(), VaultError>;

    /// Permits the snapshot of `generation`, and no other, to wake at every power-on.
    /// `None` forbids all snapshots.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotReserved`] unless `generation` is kept already, or was reserved
    /// last and has not been armed and disarmed since. Else the failure of the flash,
    /// after which the kept generation is unknown until a call succeeds.
    fn keep(&mut self, generation: Option<u64>) -> Result<(), VaultError>;
}
