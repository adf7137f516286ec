use poorwill_memory::PhysRange;

/// What makes stores to mapped memory survive the power, and what tells whether
/// the memory is there at all. Several harts may use it at once.
pub trait Persistence {
    /// Begins to write these bytes back from the caches of every hart to where
    /// they survive; need not wait. Bytes around them may be written back, too.
    fn write_back(&self, bytes: PhysRange);

    /// Waits until everything that this hart stored, or was seen to store, and
    /// that was written back before, survives the power.
    ///
    /// # Errors
    ///
    /// The status of a device that says it does not.
    fn settle(&self) -> Result<(), u16>;

    /// Whether the device behind the memory answers. Loads from one that does
    /// not give all ones, and stores to it are lost.
    fn is_present(&self) -> bool;
}

impl<P: Persistence + ?Sized> Persistence for &P {
    fn write_back(&self, bytes: PhysRange) {
        (**self).write_back(bytes);
    }

    fn settle(&self) -> Result<(), u16> {
        (**self).settle()
    }

    fn is_present(&self) -> bool {
        (**self).is_present()
    }
}
