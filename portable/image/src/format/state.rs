use poorwill_memory::{PAGE_BYTES, Page};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What stands before each record's payload.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RecordHead {
    tag: u32,
    version: u16,
    zero: u16,
    payload_bytes: u64,
}

const HEAD_BYTES: usize = size_of::<RecordHead>();

/// Records start at multiples of this, so that payloads can be read as words.
const ALIGN: usize = 8;

/// Why a record cannot be written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// The room for the machine's state is used up.
    #[error(
        "the machine's state does not fit: record {tag:#x} needs {needed} bytes, {left} are left"
    )]
    NoRoom {
        /// Tag of the record that does not fit.
        tag: u32,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A record runs beyond the end of the state, or is no record.
    #[error("the record at byte {0} of the machine's state is malformed")]
    Malformed(usize),
    /// A payload is not what its reader takes.
    #[error("record {tag:#x} has {found} bytes, which is not what its version {version} holds")]
    Payload {
        /// Tag of the record.
        tag: u32,
        /// Version of the record.
        version: u16,
        /// Bytes of payload found.
        found: usize,
    },
}

/// Writes the machine's state as tagged records, one after the other.
#[derive(Debug)]
pub struct StateWriter<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl<'a> StateWriter<'a> {
    /// Starts an empty state in `pages` and clears them.
    pub fn new(pages: &'a mut [Page]) -> Self {
        let bytes = pages.as_mut_bytes();
        bytes.fill(0);
        StateWriter { bytes, used: 0 }
    }

    /// Appends a record: what it is (`tag`), the version of its layout, and a
    /// payload, be it words or a struct.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`]; nothing is written then.
    pub fn record<T>(&mut self, tag: u32, version: u16, payload: &T) -> Result<(), StateError>
    where
        T: IntoBytes + Immutable + ?Sized,
    {
        let payload = payload.as_bytes();
        let left = self.bytes.len() - self.used;
        let needed = HEAD_BYTES + payload.len().next_multiple_of(ALIGN);
        if needed > left {
            return Err(StateError::NoRoom { tag, needed, left });
        }
        let head = RecordHead {
            tag,
            version,
            zero: 0,
            payload_bytes: payload.len() as u64,
        };
        let room = &mut self.bytes[self.used..self.used + needed];
        room[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        room[HEAD_BYTES..HEAD_BYTES + payload.len()].copy_from_slice(payload);
        self.used += needed;
        Ok(())
    }

    /// Ends the state; its length in bytes, for
    /// [`crate::SaveRequest::state_bytes`].
    #[must_use]
    pub fn finish(self) -> u64 {
        self.used as u64
    }
}

/// One record of a machine's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub tag: u32,
    /// The version of its layout.
    pub version: u16,
    /// Its contents, aligned to 8 bytes.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The payload as a struct.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] when its length is not that of `T`.
    pub fn read<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<&'a T, StateError> {
        T::ref_from_bytes(self.payload).map_err(|_| self.refuse())
    }

    /// The payload as words.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] when its length is no multiple of 8.
    pub fn words(&self) -> Result<&'a [u64], StateError> {
        <[u64]>::ref_from_bytes(self.payload).map_err(|_| self.refuse())
    }

    fn refuse(&self) -> StateError {
        StateError::Payload {
            tag: self.tag,
            version: self.version,
            found: self.payload.len(),
        }
    }
}

/// Reads the records of a machine's state in the order of their writing. After
/// an error it ends.
#[derive(Clone, Debug)]
pub struct StateReader<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl<'a> StateReader<'a> {
    /// The records in the first `state_bytes` bytes of `pages`, which have been
    /// verified as a whole already.
    pub(crate) fn new(pages: &'a [Page], state_bytes: u64) -> Self {
        let bytes = pages.as_bytes();
        debug_assert!(state_bytes <= pages.len() as u64 * PAGE_BYTES);
        let length = usize::try_from(state_bytes)
            .unwrap_or(bytes.len())
            .min(bytes.len());
        StateReader {
            bytes: &bytes[..length],
            used: 0,
        }
    }

    fn take(&mut self) -> Option<Record<'a>> {
        let (head, rest) = RecordHead::ref_from_prefix(&self.bytes[self.used..]).ok()?;
        let length = usize::try_from(head.payload_bytes).ok()?;
        let payload = rest.get(..length)?;
        let padded = length.checked_next_multiple_of(ALIGN)?;
        if rest.len() < padded || head.zero != 0 {
            return None;
        }
        self.used += HEAD_BYTES + padded;
        Some(Record {
            tag: head.tag,
            version: head.version,
            payload,
        })
    }
}

impl<'a> Iterator for StateReader<'a> {
    type Item = Result<Record<'a>, StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.used == self.bytes.len() {
            return None;
        }
        let start = self.used;
        let record = self.take();
        if record.is_none() {
            self.used = self.bytes.len();
        }
        Some(record.ok_or(StateError::Malformed(start)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    proptest! {
        #[test]
        fn records_come_back(
            records in prop::collection::vec((any::<u32>(), any::<u16>(), any::<Vec<u8>>()), 0..20),
        ) {
            let mut pages = vec![Page([!0; 512]); 2];
            let mut writer = StateWriter::new(&mut pages);
            for (tag, version, payload) in &records {
                writer.record(*tag, *version, payload.as_slice()).unwrap();
            }
            let bytes = writer.finish();
            let read: Vec<_> = StateReader::new(&pages, bytes)
                .map(|record| record.map(|r| (r.tag, r.version, r.payload.to_vec())))
                .collect();
            let wanted: Vec<_> = records.into_iter().map(Ok).collect();
            prop_assert_eq!(read, wanted);
        }

        #[test]
        fn no_state_leads_astray(words in prop::collection::vec(0u64..40, 512), bytes in 0u64..=4096) {
            let page = [Page(words.try_into().unwrap())];
            let mut ended = false;
            for record in StateReader::new(&page, bytes) {
                prop_assert!(!ended, "nothing comes after an error");
                ended = record.is_err();
            }
        }
    }

    #[test]
    fn a_record_that_does_not_fit_is_refused_whole() {
        let mut pages = [Page::ZERO];
        let mut writer = StateWriter::new(&mut pages);
        writer.record(1, 1, &[0u64; 500]).unwrap();
        let error = StateError::NoRoom {
            tag: 2,
            needed: 88,
            left: 80,
        };
        assert_eq!(writer.record(2, 1, &[1u64; 9]), Err(error));
        writer.record(3, 1, &[1u64; 8]).unwrap();
        assert_eq!(writer.finish(), 4096);
        let tags: Vec<_> = StateReader::new(&pages, 4096)
            .map(|record| record.unwrap().tag)
            .collect();
        assert_eq!(tags, [1, 3]);
    }

    #[test]
    fn payloads_are_what_their_reader_takes_or_an_error() {
        let record = Record {
            tag: 5,
            version: 3,
            payload: &[0; 24],
        };
        assert!(record.words().is_ok());
        assert!(record.read::<[u64; 3]>().is_ok());
        let error = StateError::Payload {
            tag: 5,
            version: 3,
            found: 24,
        };
        assert_eq!(record.read::<[u64; 4]>(), Err(error));
    }

    #[test]
    fn the_layout_of_a_record_is_pinned() {
        let mut pages = [Page::ZERO];
        let mut writer = StateWriter::new(&mut pages);
        writer.record(0x1234_5678, 0x9abc, b"abcdefghi").unwrap();
        assert_eq!(writer.finish(), 32);
        let wanted = [
            0x9abc_1234_5678,
            9,
            u64::from_le_bytes(*b"abcdefgh"),
            u64::from(b'i'),
        ];
        assert_eq!(pages[0].0[..4], wanted);
    }
}
