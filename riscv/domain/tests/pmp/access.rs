//! PMP matching, as a hart does it.

use poorwill_domain::pmp::Entry;

pub(crate) const READ: u8 = 0b001;
pub(crate) const READ_WRITE: u8 = 0b011;
pub(crate) const ALL: u8 = 0b111;

/// What S-mode may do with the byte at `address`: the rules of the privileged
/// specification, 3.7.1, on what the registers hold.
pub(crate) fn access(entries: &[Entry], address: u64) -> u8 {
    let mut before = 0;
    for entry in entries {
        let word = u128::from(address >> 2);
        let is_match = match entry.config >> 3 & 0b11 {
            0 => false,
            1 => before <= word && word < u128::from(entry.address),
            2 => word == u128::from(entry.address),
            _ => {
                let size = 2 << entry.address.trailing_ones();
                let start = u128::from(entry.address) / size * size;
                start <= word && word < start + size
            }
        };
        assert_eq!(
            entry.config & 0xe0,
            0,
            "nothing is locked, nothing reserved"
        );
        if is_match {
            return entry.config & ALL;
        }
        before = u128::from(entry.address);
    }
    0
}
