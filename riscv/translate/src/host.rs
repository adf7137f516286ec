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

    /// Loads double words of such pages, from an aligned address on.
    fn load_words(&self, address: u64, words: &mut [u64]) {
        for (word, address) in words.iter_mut().zip((address..).step_by(8)) {
            *word = self.load(address, 8);
        }
    }

    /// Returns whether double words of such a page, from an aligned address on, are these.
    fn has_words<const N: usize>(&self, address: u64, words: &[u64; N]) -> bool {
        let mut pairs = words.iter().zip((address..).step_by(8));
        pairs.all(|(word, address)| self.load(address, 8) == *word)
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
