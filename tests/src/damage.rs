//! Finds records and images on a disk with a sleep area, and damages them.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, ensure};
use gpt_disk_types::{Crc32, crc};
use poorwill_image::{Header, Section};
use poorwill_machine::disk::FileMedium;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page, checksum};
use poorwill_store::{Area, AreaLocation, RecordFormat, SlotId, find_areas};
use zerocopy::IntoBytes;

use crate::plan::{Damage, Place};

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

    /// The sleep area's range on the disk, in bytes.
    pub(crate) fn area(&self) -> Range<u64> {
        self.area.start..self.area.start + self.area.length
    }

    /// Offset of a place on the disk, in bytes: in the image, or in the first part of the set.
    pub(crate) fn offset(&self, place: Place) -> anyhow::Result<u64> {
        match (place, self.images.is_empty()) {
            // Before the first sleep.
            (Place::Header, true) => Ok(self.slot + RECORD_BYTE),
            _ => self.offset_in(0, place),
        }
    }

    /// The same in the part of the set with this index.
    fn offset_in(&self, part: usize, place: Place) -> anyhow::Result<u64> {
        let image = || {
            let image = self.images.get(part);
            image.with_context(|| format!("the disk has no image {part}"))
        };
        let middle = |section: fn(&Header) -> Section| {
            let image = image()?;
            let section = section(&image.header);
            anyhow::Ok(image.start + section.first_page * PAGE_BYTES + section.bytes / 2)
        };
        match place {
            Place::Record => Ok(self.record + RECORD_BYTE),
            Place::Header => Ok(image()?.start + RECORD_BYTE),
            Place::State => middle(|header| header.state),
            Place::Map => middle(|header| header.map),
            Place::Digests => middle(|header| header.digests),
            Place::Data => middle(|header| header.data),
            Place::DataEnd => {
                let (image, data) = (image()?, image()?.header.data);
                Ok(image.start + data.first_page * PAGE_BYTES + data.bytes - 1)
            }
        }
    }
}

/// Offset of the first slot in an area, in bytes.
const FIRST_SLOT: u64 = 1 << 20;

/// Offset of a byte that is in use in records and in headers.
const RECORD_BYTE: u64 = 20;

/// Applies `damage` to a disk.
pub(crate) fn apply(damage: Damage, disk: &Path, block_bytes: u32) -> anyhow::Result<()> {
    let found = Found::on(disk, block_bytes)?;
    let file = File::options().read(true).write(true).open(disk)?;
    match damage {
        Damage::Flip(place) => flip(&file, found.offset(place)?)?,
        Damage::Part(part, place) => flip(&file, found.offset_in(part, place)?)?,
        Damage::Truncate => file.set_len(found.offset(Place::Data)? / PAGE_BYTES * PAGE_BYTES)?,
        Damage::ZeroData => {
            let image = found.images.first().context("there is no image")?;
            let data = image.header.data;
            let start = image.start + data.first_page * PAGE_BYTES;
            overwrite(&file, start, data.bytes, &mut std::io::repeat(0))?;
        }
        Damage::RandomArea => {
            // The area's head and the used part of its first slot are enough.
            let bytes = found.area.length.min(64 << 20);
            overwrite(
                &file,
                found.area.start,
                bytes,
                &mut File::open("/dev/urandom")?,
            )?;
        }
        Damage::NoTable => {
            let table = u64::from(block_bytes) * 34;
            let end = file.metadata()?.len();
            overwrite(&file, 0, table, &mut std::io::repeat(0))?;
            overwrite(&file, end - table, table, &mut std::io::repeat(0))?;
        }
        Damage::WholeSwap => {
            let mut header = [0; 3 << 10];
            // The version, and the last page.
            header[..4].copy_from_slice(&1u32.to_le_bytes());
            let pages = u32::try_from(file.metadata()?.len() / PAGE_BYTES)?;
            header[4..8].copy_from_slice(&(pages - 1).to_le_bytes());
            header[(3 << 10) - 10..].copy_from_slice(b"SWAPSPACE2");
            file.write_all_at(&header, 1 << 10)?;
        }
        Damage::Overlap => {
            let end = (found.area.start + found.area.length) / u64::from(block_bytes);
            let first = end - (1 << 20) / u64::from(block_bytes);
            edit_tables(&file, block_bytes, |entries| {
                let (area, free) = entries.split_at_mut(ENTRY_BYTES);
                free[..ENTRY_BYTES].copy_from_slice(area);
                // Another type and GUID.
                free[..32].fill(7);
                free[32..40].copy_from_slice(&first.to_le_bytes());
                free[40..48].copy_from_slice(&(end + 8).to_le_bytes());
            })?;
        }
        Damage::OnTable => edit_tables(&file, block_bytes, |entries| {
            entries[32..40].copy_from_slice(&1u64.to_le_bytes());
        })?,
    }
    file.sync_all()?;
    Ok(())
}

/// Makes a sealed image look plain to a reader without the key: removes the seal from its header,
/// and corrects the checksums.
pub(crate) fn unseal(disk: &Path, block_bytes: u32) -> anyhow::Result<()> {
    let found = Found::on(disk, block_bytes)?;
    let file = File::options().read(true).write(true).open(disk)?;
    let mut header = Page::ZERO;
    file.read_exact_at(header.as_mut_bytes(), found.slot)?;
    // docs/image-format.md: the seal is bytes 344 to 391.
    header.0[43..49].fill(0);
    header.0[2] = checksum::of_words_but(&header.0, 2);
    file.write_all_at(header.as_bytes(), found.slot)?;
    let mut record = Page::ZERO;
    file.read_exact_at(record.as_mut_bytes(), found.record)?;
    record.0[6] = header.0[2];
    record.0[2] = checksum::of_words_but(&record.0[..64], 2);
    file.write_all_at(record.as_bytes(), found.record)?;
    Ok(())
}

/// Length of an entry of a partition table, in bytes.
const ENTRY_BYTES: usize = 128;

/// Changes the entries of both copies of a partition table, and corrects the checksums.
fn edit_tables(file: &File, block_bytes: u32, edit: impl Fn(&mut [u8])) -> anyhow::Result<()> {
    let checksum = |bytes: &[u8]| crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(bytes);
    let last = file.metadata()?.len() / u64::from(block_bytes) - 1;
    for block in [1, last] {
        // UEFI 2.10, section 5.3.2: the places of the fields.
        let mut header = [0; 92];
        let place = block * u64::from(block_bytes);
        file.read_exact_at(&mut header, place)?;
        let word = |at: usize| header[at..].first_chunk().copied().map(u32::from_le_bytes);
        let (lba, count) = (word(72).context("a word")?, word(80).context("a word")?);
        let array = u64::from(lba) * u64::from(block_bytes);
        let mut entries = vec![0; count as usize * ENTRY_BYTES];
        file.read_exact_at(&mut entries, array)?;
        edit(&mut entries);
        file.write_all_at(&entries, array)?;
        header[88..92].copy_from_slice(&checksum(&entries).to_le_bytes());
        header[16..20].fill(0);
        let own = checksum(&header);
        header[16..20].copy_from_slice(&own.to_le_bytes());
        file.write_all_at(&header, place)?;
    }
    Ok(())
}

fn flip(file: &File, offset: u64) -> anyhow::Result<()> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    byte[0] ^= 0x10;
    file.write_all_at(&byte, offset)?;
    Ok(())
}

fn overwrite(file: &File, start: u64, bytes: u64, with: &mut dyn Read) -> anyhow::Result<()> {
    let mut from = with.take(bytes);
    let mut to = file;
    std::io::Seek::seek(&mut to, std::io::SeekFrom::Start(start))?;
    let copied = std::io::copy(&mut from, &mut to)?;
    to.flush()?;
    ensure!(copied == bytes, "wrote {copied} of {bytes} bytes");
    Ok(())
}
