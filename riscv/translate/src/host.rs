use poorwill_hart::Progression;

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

    /// Stores an entry of the OS's tables to such a page: a walk has set A or D in it.
    fn store_entry(&self, address: u64, entry: u64) {
        self.store(address, 8, entry);
    }

    /// How many double words of such a page are those of the progression, from `address` on and up to
    /// `most`. Fewer may be counted.
    fn run_of_words(&self, address: u64, most: u64, words: Progression) -> u64 {
        let expected = |number: u64| words.first.wrapping_add(number.wrapping_mul(words.step));
        let is_its = |number: &u64| self.load(address + 8 * number, 8) == expected(*number);
        (0..most).take_while(is_its).count() as u64
    }

    /// Loads half-words of such a page.
    fn load_halves(&self, address: u64, halves: &mut [u16]) {
        for (half, address) in halves.iter_mut().zip((address..).step_by(2)) {
            *half = self.load(address, 2) as u16;
        }
    }

    /// Returns whether half-words of such a page, from `address` on, are these.
    fn has_halves(&self, address: u64, halves: &[u16]) -> bool {
        let mut pairs = halves.iter().zip((address..).step_by(2));
        pairs.all(|(half, address)| self.load(address, 2) == u64::from(*half))
    }

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
