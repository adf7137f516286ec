//! Finds records and images on a disk with a sleep area.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use poorwill_image::{Header, Section};
use poorwill_machine::disk::FileMedium;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_store::{Area, AreaLocation, RecordFormat, SlotId, find_areas};

use crate::plan::Place;

/// The sleep area of a disk, with its image or its set if there is one.
pub(crate) struct Found {
    area: AreaLocation,
    /// Offset of the slot's record on the disk, in bytes.
    record: u64,
    /// Offset of the slot on the disk, in bytes.
    slot: u64,
    /// The image, or the parts of the set.
    images: Vec<Image>,
}

/// An image on a disk.
struct Image {
    /// Its offset on the disk, in bytes.
    start: u64,
    header: Header,
}

impl Found {
    /// Finds the first sleep area of a disk.
    pub(crate) fn on(disk: &Path, block_bytes: u32) -> anyhow::Result<Self> {
        let file = File::open(disk)?;
        let bytes = file.metadata()?.len();
        let mut medium = FileMedium::new(file, bytes);
        let mut page = Page::ZERO;
        let areas = find_areas(&mut medium, block_bytes, core::slice::from_mut(&mut page))?;
        let location = *areas
            .first()
            .with_context(|| format!("no sleep area on {}", disk.display()))?;
        let window = Window::new(&mut medium, location.start, location.length)?;
        let mut scratch = Page::ZERO;
        let mut area = Area::open(window, &mut scratch, None, RecordFormat::Image)?;
        let set = || area.newest_in(RecordFormat::Set);
        let committed = area.newest().or_else(|_| set()).ok();
        let committed = committed.map(|image| image.slot());
        let slot = committed.unwrap_or(SlotId::First);
        let slot_offset = match area.slots()[slot.index()].record() {
            Some(record) => record.slot_offset,
            None => FIRST_SLOT,
        };
        let start = location.start + slot_offset;
        let offsets: Vec<_> = match (committed, area.parts(slot)) {
            (None, _) => Vec::new(),
            (Some(_), []) => vec![0],
            (Some(_), parts) => (parts.iter().map(|part| part.first_page * PAGE_BYTES)).collect(),
        };
        let mut image = |offset| {
            let mut slot = area.slot(slot)?;
            slot.read(offset, core::slice::from_mut(&mut page))?;
            anyhow::Ok(Image {
                start: start + offset,
                header: Header::parse(&page)?,
            })
        };
        let images = offsets.into_iter().map(&mut image);
        Ok(Self {
            area: location,
            record: location.start + (1 + slot.index() as u64) * PAGE_BYTES,
            slot: start,
            images: images.collect::<Result<_, _>>()?,
        })
    }

    /// Offset of the slot's record on the disk, in bytes.
    pub(crate) fn record(&self) -> u64 {
        self.record
    }

    /// Offset on the disk in bytes, and header, of the image or of a part of the set.
    pub(crate) fn image(&self, part: usize) -> anyhow::Result<(u64, &Header)> {
        let image = self.images.get(part);
        let image = image.with_context(|| format!("the disk has no image {part}"))?;
        Ok((image.start, &image.header))
    }

    /// The sleep area's range on the disk, in bytes.
    pub(crate) fn area(&self) -> Range<u64> {
        self.area.start..self.area.start + self.area.length
    }

    /// Offset on the disk, in bytes, of a place in the part of the set with this index; 0: the image.
    pub(crate) fn offset(&self, part: usize, place: Place) -> anyhow::Result<u64> {
        let middle = |section: fn(&Header) -> Section| {
            let (start, header) = self.image(part)?;
            let section = section(header);
            anyhow::Ok(start + section.first_page * PAGE_BYTES + section.bytes / 2)
        };
        match place {
            Place::Record => Ok(self.record + RECORD_BYTE),
            // Before the first sleep.
            Place::Header if self.images.is_empty() => Ok(self.slot + RECORD_BYTE),
            Place::Header => Ok(self.image(part)?.0 + RECORD_BYTE),
            Place::State => middle(|header| header.state),
            Place::Map => middle(|header| header.map),
            Place::Digests => middle(|header| header.digests),
            Place::Data => middle(|header| header.data),
            Place::DataEnd => {
                let (start, Header { data, .. }) = self.image(part)?;
                Ok(start + data.first_page * PAGE_BYTES + data.bytes - 1)
            }
        }
    }
}

/// Offset of the first slot in an area, in bytes.
const FIRST_SLOT: u64 = 1 << 20;

/// Offset of a byte that is in use in records and in headers.
const RECORD_BYTE: u64 = 20;
