//! Sleep areas made of inputs.

use poorwill_image::{ImageKind, Saved};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{PAGE_BYTES, Page, checksum};
use poorwill_store::fake::save_pages;
use poorwill_store::{CONFIGURATION_VERSION, OpenSlot, RecordFormat, SlotId};
use zerocopy::IntoBytes;

use crate::image::IDENTITY;
use crate::{Cases, Input, disk};

const MIB: u64 = 1 << 20;

/// A medium that is a sleep area of a few MiB, or too small to be one.
pub fn medium(input: &mut Input<'_>) -> FakeMedium {
    let bytes = if input.one_in(16) {
        input.below(5) * MIB
    } else {
        5 * MIB
    };
    let mut medium = FakeMedium::new(bytes + input.below(700) * PAGE_BYTES).with_seed(input.any());
    for slot in SlotId::BOTH {
        let length = medium.bytes().len() as u64;
        if length > 4 * PAGE_BYTES {
            let record = record(input, slot, length);
            let offset = (1 + slot.index() as u64) * PAGE_BYTES;
            disk::put(&mut medium, offset, record.as_bytes());
        }
    }
    medium
}

/// The page of a slot's record (`docs/image-format.md`): none, a good one of an image or a set but
/// for what the input changes, or anything.
fn record(input: &mut Input<'_>, slot: SlotId, area_bytes: u64) -> Page {
    let mut page = Page::ZERO;
    let choice = input.below(16);
    match choice % 4 {
        0 => return page,
        1 => {
            for word in &mut page.0[..16] {
                *word = input.any();
            }
            return page;
        }
        _ => {}
    }
    let format = match choice / 4 {
        3 => RecordFormat::Set,
        _ => RecordFormat::Image,
    };
    let slot_bytes = area_bytes.saturating_sub(MIB) / 2 / MIB * MIB;
    let state = 1 + input.below(4);
    let generation = match input.below(4) {
        0 => input.edgy(),
        _ => input.below(4),
    };
    page.0[..12].copy_from_slice(&[
        u64::from_le_bytes(*b"PWILSLOT"),
        u64::from(format.version()) | state << 32,
        0,
        generation,
        MIB + slot.index() as u64 * slot_bytes,
        slot_bytes,
        input.any(),
        input.edgy(),
        input.below(8) | input.below(7) << 32,
        input.edgy(),
        input.below(2),
        input.below(2) | input.below(5) << 32,
    ]);
    if format == RecordFormat::Set {
        parts(input, &mut page);
    }
    for _ in 0..input.below(3) {
        page.0[input.below(64) as usize] = input.edgy();
    }
    page.0[2] = checksum::of_words_but(&page.0[..64], 2);
    if input.one_in(16) {
        page.0[input.below(512) as usize] ^= 1 << input.below(64);
    }
    page
}

/// Makes a record that of a set.
fn parts(input: &mut Input<'_>, page: &mut Page) {
    let (words, _) = page.0[16..64].as_chunks_mut::<6>();
    let mut end = 0;
    for (name, part) in (0..=input.below(3)).zip(words) {
        let first = end / PAGE_BYTES + 1;
        let bytes = 1 + input.below(4 * PAGE_BYTES);
        *part = [name, first, bytes, input.any(), input.below(4), input.any()];
        end = first * PAGE_BYTES + bytes;
    }
    page.0[6..8].copy_from_slice(&[0, end]);
}

/// The page of an area's configuration (`docs/image-format.md`): none, a good
/// one but for what the input changes, or anything.
pub fn configuration(input: &mut Input<'_>) -> Page {
    let mut page = Page::ZERO;
    match input.below(4) {
        0 => return page,
        1 => {
            for word in &mut page.0[..8] {
                *word = input.any();
            }
            return page;
        }
        _ => {}
    }
    page.0[..5].copy_from_slice(&[
        u64::from_le_bytes(*b"PWILCONF"),
        (u64::from(CONFIGURATION_VERSION) - input.below(2)) | (input.below(6) << 32),
        0,
        input.edgy(),
        input.edgy(),
    ]);
    for _ in 0..input.below(3) {
        page.0[input.below(64) as usize] = input.edgy();
    }
    page.0[2] = checksum::of_words_but(&page.0[..64], 2);
    if input.one_in(16) {
        page.0[input.below(512) as usize] ^= 1 << input.below(64);
    }
    page
}

/// Saves a machine of one page; `None` when the medium failed.
///
/// # Panics
///
/// When the slot's medium has shrunk.
pub fn save_into(slot: &mut OpenSlot<'_, '_, FakeMedium>, kind: ImageKind) -> Option<Saved> {
    save_pages(slot, IDENTITY, kind, &[Page([7; 512])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use poorwill_store::{Configuration, ConfigurationError, SlotRecord};

    /// Else every record that the input does not change would be refused.
    #[test]
    fn what_the_input_leaves_alone_is_of_the_format_that_there_is() {
        // Chooses a record, and then zeros.
        for (choice, format) in [(2, RecordFormat::Image), (14, RecordFormat::Set)] {
            let page = record(&mut Input::new(&[choice]), SlotId::First, 5 * MIB);
            let record = SlotRecord::parse(&page);
            assert_eq!(record.map(|record| record.format()), Ok(format));
        }
        let mut input = Input::new(&[2]);
        let refused = Configuration::parse(&configuration(&mut input)).err();
        assert!(!matches!(refused, Some(ConfigurationError::Version { .. })));
    }
}
