use poorwill_memory::PhysRange;

/// Makes stores to mapped memory durable, and detects whether the memory is present.
/// Several harts may use it at once.
pub trait Persistence {
    /// Starts to write these bytes back from the caches of all harts to durable memory,
    /// without waiting. It may write back adjacent bytes, too.
    fn write_back(&self, bytes: PhysRange);

    /// Waits until earlier stores that were written back are durable. These are the
    /// stores of this hart, and those of other harts that it has observed.
    ///
    /// # Errors
    ///
    /// The status of a device that reports a failure of persistence.
    fn settle(&self) -> Result<(), u16>;

    /// Whether the memory's device answers. Loads from an absent device return all ones,
    /// and stores to it are lost.
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
