//! A set: the images of all domains of one sleep, each of them a part.

use poorwill_image::{Expected, ImageKind};
use poorwill_memory::PAGE_BYTES;
use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::failure::Failure;

/// The maximal number of parts of a set.
pub const MAX_PARTS: usize = 8;

/// A part of a set: the image of one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The [hash](poorwill_memory::checksum::name_hash) of the domain's name.
    pub name_hash: u64,
    /// The first page of the image in the slot.
    pub first_page: u64,
    /// The length of the image in bytes.
    pub bytes: u64,
    /// The checksum of the image's header, which covers the whole image.
    pub header_checksum: u64,
    /// The reason why the domain did not wake, if its wake failed.
    pub failure: Option<Failure>,
}

/// The reason why an image cannot be a part of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PartError {
    /// There is no part of this number.
    #[error("the set has no part {0}")]
    Absent(usize),
    /// The set is full.
    #[error("a set has at most {MAX_PARTS} parts")]
    TooMany,
    /// Two domains have one name, or names of one hash.
    #[error("two domains of the set have a name with hash {0:#018x}: rename one")]
    SameName(u64),
    /// The image is empty, begins before the end of the part before it, or does not end in the
    /// slot.
    #[error("the part at page {0} has no place in the slot")]
    Misplaced(u64),
}

/// The parts of a set, in the order of their domains' wakes.
// It is a part of each record in memory, so it has no length beside the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts([Part; MAX_PARTS]);

/// The bytes of a part in the record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct RawPart {
    name_hash: U64,
    first_page: U64,
    bytes: U64,
    header_checksum: U64,
    failure_code: U32,
    zero: U32,
    failure_detail: U64,
}

impl Part {
    /// An unused place: no image has 0 bytes.
    const UNUSED: Part = Part {
        name_hash: 0,
        first_page: 0,
        bytes: 0,
        header_checksum: 0,
        failure: None,
    };

    /// The header that [`poorwill_image::open`] must find in the part's window. `generation` is the
    /// set's.
    #[must_use]
    pub fn expected(&self, generation: u64) -> Expected {
        Expected {
            header_checksum: self.header_checksum,
            generation,
            kind: ImageKind::Once,
        }
    }

    /// The end of the image in the slot, in bytes; `None`: no slot is so long.
    fn end(&self) -> Option<u64> {
        let start = self.first_page.checked_mul(PAGE_BYTES)?;
        start.checked_add(self.bytes)
    }
}

impl Parts {
    /// No part.
    pub(crate) const NONE: Parts = Parts([Part::UNUSED; MAX_PARTS]);

    /// The parts as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[Part] {
        let unused = self.0.iter().position(|part| part.bytes == 0);
        &self.0[..unused.unwrap_or(MAX_PARTS)]
    }

    /// The end of the last part in the slot, in bytes.
    pub(crate) fn end(&self) -> u64 {
        self.as_slice().last().and_then(Part::end).unwrap_or(0)
    }

    /// Appends a part of a set in a slot of `slot_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`PartError`].
    pub(crate) fn push(&mut self, part: Part, slot_bytes: u64) -> Result<(), PartError> {
        let parts = self.as_slice();
        if parts.iter().any(|other| other.name_hash == part.name_hash) {
            return Err(PartError::SameName(part.name_hash));
        }
        let fits = part.bytes != 0
            && part.first_page >= self.end().div_ceil(PAGE_BYTES)
            && part.end().is_some_and(|end| end <= slot_bytes);
        if !fits {
            return Err(PartError::Misplaced(part.first_page));
        }
        let count = parts.len();
        *self.0.get_mut(count).ok_or(PartError::TooMany)? = part;
        Ok(())
    }

    /// Notes why a domain did not wake.
    ///
    /// # Errors
    ///
    /// [`PartError::Absent`].
    pub(crate) fn fail(&mut self, index: usize, failure: Failure) -> Result<(), PartError> {
        let count = self.as_slice().len();
        let part = self.0[..count].get_mut(index);
        part.ok_or(PartError::Absent(index))?.failure = Some(failure);
        Ok(())
    }

    /// Parses the parts of a record; `None` if they contradict themselves.
    pub(crate) fn parse(raw: &[RawPart; MAX_PARTS], slot_bytes: u64) -> Option<Parts> {
        let count = raw.iter().position(RawPart::is_unused);
        let count = count.unwrap_or(MAX_PARTS);
        let (used, unused) = raw.split_at(count);
        let is_right =
            unused.iter().all(RawPart::is_unused) && used.iter().all(|raw| raw.zero.get() == 0);
        if !is_right {
            return None;
        }
        let mut parts = Parts::NONE;
        for raw in used {
            parts.push(raw.part(), slot_bytes).ok()?;
        }
        Some(parts)
    }

    pub(crate) fn write(&self, raw: &mut [RawPart; MAX_PARTS]) {
        for (raw, part) in raw.iter_mut().zip(self.as_slice()) {
            *raw = RawPart::of(part);
        }
    }
}

impl RawPart {
    pub(crate) fn is_unused(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }

    fn part(&self) -> Part {
        Part {
            name_hash: self.name_hash.get(),
            first_page: self.first_page.get(),
            bytes: self.bytes.get(),
            header_checksum: self.header_checksum.get(),
            failure: Failure::from_parts(self.failure_code.get(), self.failure_detail.get()),
        }
    }

    fn of(part: &Part) -> RawPart {
        let (code, detail) = part.failure.map_or((0, 0), Failure::to_parts);
        RawPart {
            name_hash: part.name_hash.into(),
            first_page: part.first_page.into(),
            bytes: part.bytes.into(),
            header_checksum: part.header_checksum.into(),
            failure_code: code.into(),
            failure_detail: detail.into(),
            ..RawPart::new_zeroed()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use core::mem::offset_of;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        let offsets = [
            (offset_of!(RawPart, name_hash), 0),
            (offset_of!(RawPart, first_page), 8),
            (offset_of!(RawPart, bytes), 16),
            (offset_of!(RawPart, header_checksum), 24),
            (offset_of!(RawPart, failure_code), 32),
            (offset_of!(RawPart, zero), 36),
            (offset_of!(RawPart, failure_detail), 40),
            (size_of::<[RawPart; MAX_PARTS]>(), 384),
        ];
        for (number, (found, right)) in offsets.into_iter().enumerate() {
            assert_eq!(found, right, "line {number}");
        }
    }

    pub(crate) fn part(name_hash: u64, first_page: u64, bytes: u64) -> Part {
        Part {
            name_hash,
            first_page,
            bytes,
            header_checksum: !name_hash,
            failure: None,
        }
    }

    /// The length of the slot of [`sets`].
    pub(crate) const SLOT: u64 = 1 << 30;

    /// Sets in a slot of [`SLOT`] bytes.
    pub(crate) fn sets() -> impl Strategy<Value = Parts> {
        let failure = prop::option::of((0_u32..1 << 31, any::<u64>()));
        let place = (0_u64..4, 1_u64..1 << 20, any::<u64>(), failure);
        prop::collection::vec(place, 1..=MAX_PARTS).prop_map(|places| {
            let mut parts = Parts::NONE;
            for (number, (gap, bytes, header_checksum, failure)) in places.into_iter().enumerate() {
                let new = Part {
                    header_checksum,
                    failure: failure.map(|(code, detail)| Failure::Other(code, detail)),
                    ..part(number as u64, parts.end().div_ceil(PAGE_BYTES) + gap, bytes)
                };
                parts.push(new, SLOT).unwrap();
            }
            parts
        })
    }

    #[test]
    fn what_is_no_part_is_refused() {
        let mut parts = Parts::NONE;
        parts.push(part(1, 0, 4097), SLOT).unwrap();
        let whole = parts;
        let cases = [
            (part(1, 2, 1), PartError::SameName(1)),
            (part(2, 2, 0), PartError::Misplaced(2)),
            (part(2, 1, 1), PartError::Misplaced(1)),
            (part(2, 2, SLOT - 8191), PartError::Misplaced(2)),
            (part(2, u64::MAX, 1), PartError::Misplaced(u64::MAX)),
            (part(2, 2, u64::MAX), PartError::Misplaced(2)),
        ];
        for (wrong, error) in cases {
            assert_eq!(parts.push(wrong, SLOT), Err(error), "{wrong:?}");
            assert_eq!(parts, whole);
        }
        parts.push(part(2, 2, SLOT - 8192), SLOT).unwrap();
        assert_eq!(parts.end(), SLOT);
        assert_eq!(parts.fail(2, Failure::Reset(1)), Err(PartError::Absent(2)));
        let mut full = Parts::NONE;
        for number in 0..8 {
            full.push(part(number, number, 1), SLOT).unwrap();
        }
        assert_eq!(full.as_slice().len(), MAX_PARTS);
        assert_eq!(full.push(part(9, 9, 1), SLOT), Err(PartError::TooMany));
    }

    fn raw(parts: &Parts) -> [RawPart; MAX_PARTS] {
        let mut raw = [RawPart::new_zeroed(); MAX_PARTS];
        parts.write(&mut raw);
        raw
    }

    #[test]
    fn a_gap_between_the_parts_is_refused() {
        let mut parts = Parts::NONE;
        parts.push(part(1, 0, 1), SLOT).unwrap();
        parts.push(part(2, 1, 1), SLOT).unwrap();
        let mut bytes = raw(&parts);
        bytes[1..3].reverse();
        assert_eq!(Parts::parse(&bytes, SLOT), None);
        let mut bytes = raw(&parts);
        bytes.swap(0, 1);
        assert_eq!(Parts::parse(&bytes, SLOT), None);
        let mut bytes = raw(&parts);
        bytes[1].zero = 1.into();
        assert_eq!(Parts::parse(&bytes, SLOT), None);
    }

    proptest! {
        #[test]
        fn parts_come_back(parts in sets()) {
            prop_assert_eq!(Parts::parse(&raw(&parts), SLOT), Some(parts));
        }

        /// What is read has its place in the slot.
        #[test]
        fn no_part_leads_astray(
            parts in sets(),
            changes in prop::collection::vec((0_usize..48, prop_oneof![0_u64..300, any::<u64>()]), 1..4),
        ) {
            let mut bytes = raw(&parts);
            let words = <[U64]>::mut_from_bytes(bytes.as_mut_bytes()).unwrap();
            for (word, value) in changes {
                words[word] = value.into();
            }
            let Some(read) = Parts::parse(&bytes, SLOT) else {
                return Ok(());
            };
            let mut end = 0;
            for part in read.as_slice() {
                prop_assert!(part.bytes != 0 && part.first_page * PAGE_BYTES >= end);
                end = part.first_page * PAGE_BYTES + part.bytes;
            }
            prop_assert!(end <= SLOT && end == read.end());
            let mut names: Vec<_> = read.as_slice().iter().map(|part| part.name_hash).collect();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), read.as_slice().len());
        }
    }
}
