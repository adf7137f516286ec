/// Memory as a device accesses it: aligned 64-bit words at addresses.
pub trait DeviceMemory {
    /// The word at `address`.
    fn load(&self, address: u64) -> u64;

    /// Changes the word at `address`.
    fn store(&self, address: u64, value: u64);
}

/// Writes bytes, in whole words, from `address` on.
pub(crate) fn store_bytes(memory: &impl DeviceMemory, address: u64, from: &[u8]) {
    for (address, word) in (address..).step_by(8).zip(from.as_chunks::<8>().0) {
        memory.store(address, u64::from_le_bytes(*word));
    }
}

/// Fills `into` with whole words from `address` on.
pub(crate) fn load_bytes(memory: &impl DeviceMemory, address: u64, into: &mut [u8]) {
    for (address, word) in (address..).step_by(8).zip(into.as_chunks_mut::<8>().0) {
        *word = memory.load(address).to_le_bytes();
    }
}
