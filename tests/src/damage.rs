//! Damages records and images on a disk with a sleep area.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, ensure};
use gpt_disk_types::{Crc32, crc};
use poorwill_image::Header;
use poorwill_memory::PAGE_BYTES;

use crate::forge;
use crate::layout::Found;
use crate::plan::{Damage, Place};

/// Applies `damage` to a disk.
pub(crate) fn apply(damage: Damage, disk: &Path, block_bytes: u32) -> anyhow::Result<()> {
    let found = Found::on(disk, block_bytes)?;
    let file = File::options().read(true).write(true).open(disk)?;
    match damage {
        Damage::Flip(place) => flip(&file, found.offset(0, place)?)?,
        Damage::Part(part, place) => flip(&file, found.offset(part, place)?)?,
        Damage::Forge(part, forgery) => forge::part(&file, &found, part, forgery)?,
        Damage::Truncate => {
            file.set_len(found.offset(0, Place::Data)? / PAGE_BYTES * PAGE_BYTES)?
        }
        Damage::ZeroData => {
            let (start, Header { data, .. }) = found.image(0)?;
            let start = start + data.first_page * PAGE_BYTES;
            overwrite(&file, start, data.bytes, &mut std::io::repeat(0))?;
        }
        Damage::RandomArea => {
            // The area's head and the used part of its first slot are enough.
            let bytes = (found.area().end - found.area().start).min(64 << 20);
            overwrite(
                &file,
                found.area().start,
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
            let end = found.area().end / u64::from(block_bytes);
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
