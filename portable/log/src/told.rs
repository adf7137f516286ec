use poorwill_memory::checksum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::log::{Log, TEXT_BYTES};

/// A log's text for the OS, padded with at least one zero.
pub type LogText = [u8; TEXT_BYTES];

/// The address and checksum of the text that the firmware gave the OS. An image stores these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ToldLog {
    /// Physical address of the text.
    pub address: u64,
    /// The checksum of the whole text with its padding.
    checksum: u64,
}

impl ToldLog {
    /// Owner and version of its section of an image's state.
    pub const SECTION: (u32, u16) = (u32::from_le_bytes(*b"LOGP"), 1);

    /// Writes the text of `log` to `into`, which lies at `address`. The domain `reader` gets no lines
    /// about other ones; without a name it gets all.
    pub fn write(log: &Log, reader: &str, address: u64, into: &mut LogText) -> Self {
        into.fill(0);
        let mut end = 0;
        for line in log.lines_for(reader) {
            into[end..end + line.len()].copy_from_slice(line);
            end += line.len();
        }
        ToldLog {
            address,
            checksum: checksum::of_bytes(into),
        }
    }

    /// Returns whether `found`, which lies at the address, is still the firmware's text. The OS may
    /// have moved its tree and reused the memory.
    #[must_use]
    pub fn is_there(&self, found: &LogText) -> bool {
        checksum::of_bytes(found) == self.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogLine;

    #[test]
    fn it_is_known_again_and_nothing_else_is() {
        let mut log = Log::new();
        log.add(&LogLine::new(3, "cold boot: no image"));
        let mut place = [0xaa; TEXT_BYTES];
        let told = ToldLog::write(&log, "", 0x8200_0123, &mut place);
        assert!(place.starts_with(log.text().as_bytes()));
        assert!(place[log.text().len()..].iter().all(|byte| *byte == 0));
        assert!(told.is_there(&place));
        log.add(&LogLine::new(5, "woken"));
        let mut next = place;
        assert!(told.is_there(&next));
        let new = ToldLog::write(&log, "", told.address, &mut next);
        assert!(new.is_there(&next) && next.starts_with(log.text().as_bytes()));
        assert!(!told.is_there(&next), "it is the newer one");
        for at in [0, 20, TEXT_BYTES - 1] {
            place[at] ^= 1;
            assert!(!told.is_there(&place));
            place[at] ^= 1;
        }
    }
}
