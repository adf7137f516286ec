/// Memory, devices, interrupts and time of the machine, by physical address.
///
/// Accesses are naturally aligned, of 1, 2, 4 or 8 bytes; upper bits of values are zero.
pub trait Host {
    /// Returns whether all bytes of the page are the OS's memory. The answer does not change while
    /// harts are lent.
    fn is_memory(&self, page: u64) -> bool;

    /// Loads from such a page.
    fn load(&self, address: u64, bytes: u64) -> u64;

    /// Stores to such a page.
    fn store(&self, address: u64, bytes: u64, value: u64);

    /// Loads from elsewhere. `None`: the lent hart may not do that, or the device refuses.
    fn load_device(&self, address: u64, bytes: u64) -> Option<u64>;

    /// Stores elsewhere; `None` as for loads.
    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()>;

    /// Orders all earlier accesses before all later ones.
    fn fence(&self);

    /// Current value of `time`.
    fn time(&self) -> u64;

    /// Returns whether a device interrupts the hart (SEIP).
    fn external_interrupt(&self) -> bool;
}
