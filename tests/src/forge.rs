//! Forges images as an attacker does who writes to the disk: with right checksums.
//! docs/image-format.md has the places of all fields.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, ensure};
use poorwill_memory::{PAGE_BYTES, Page, PageHasher, checksum};
use zerocopy::IntoBytes;

use crate::layout::Found;
use crate::plan::Forgery;

/// Words of a header: its checksum, its number of OS pages, the digest of the state, the seal.
const CHECKSUM: usize = 2;
const OS_PAGES: usize = 5;
const STATE_DIGEST: usize = 16;
const SEAL: std::ops::Range<usize> = 43..49;

/// Words of a record: the checksum of the only image's header, and the entries of a set's parts. An
/// entry has six, the first for the name, the fourth for the checksum of the part's header.
const HEADER_CHECKSUM: usize = 6;
const PARTS: usize = 16;
const PART_WORDS: usize = 6;
const RECORD_WORDS: usize = 64;

/// Bytes of the head of a section of the state.
const HEAD: usize = 16;

/// Numbers of sections for each domain.
const DOMAIN_NUMBERS: u16 = 256;

/// An APLIC's SOURCECFG for a source that is active while its wire is low, DOMAINCFG with interrupts
/// on and messages as delivery, and the place of a target's hart (AIA 1.0, 4.5.1, 4.5.2, 4.5.16).
const ACTIVE_LOW: u32 = 7;
const DELIVERS: u32 = 0x8000_0104;
const TARGET_HART: u32 = 18;

/// Makes a sealed image look plain to a reader without the key.
pub(crate) fn unseal(disk: &Path, block_bytes: u32) -> anyhow::Result<()> {
    let found = Found::on(disk, block_bytes)?;
    let file = File::options().read(true).write(true).open(disk)?;
    let mut image = Image::read(&file, &found, 0)?;
    image.header.0[SEAL].fill(0);
    let mut record = read_page(&file, found.record())?;
    record.0[HEADER_CHECKSUM] = image.write(&file)?;
    write_record(&file, &found, record)
}

/// Forges a part of a set.
pub(crate) fn part(
    file: &File,
    found: &Found,
    part: usize,
    forgery: Forgery,
) -> anyhow::Result<()> {
    let mut image = Image::read(file, found, part)?;
    let mut record = read_page(file, found.record())?;
    let entry = PARTS + part * PART_WORDS;
    match forgery {
        Forgery::Hart(hart) => image.set(b"CORE", 0, hart)?,
        Forgery::Vector(address) => image.set(b"CORE", 1, address)?,
        Forgery::Csr(number) => image.set(b"CSRS", 0, number)?,
        Forgery::Section(domain) => {
            let start = image.section(b"APLC")?.start;
            let number = (domain * DOMAIN_NUMBERS).to_le_bytes();
            image.state[start - 10..start - 8].copy_from_slice(&number);
        }
        Forgery::Targets(identity) => image.set_targets(identity)?,
        Forgery::Pages(more) => image.header.0[OS_PAGES] += more,
        Forgery::Name => record.0[entry] ^= 1,
    }
    record.0[entry + 3] = image.write(file)?;
    write_record(file, found, record)
}

/// Header and state of an image.
struct Image {
    start: u64,
    header: Page,
    /// Offset of the state on the disk, in bytes, and all its pages.
    state_start: u64,
    state: Vec<u8>,
}

impl Image {
    fn read(file: &File, found: &Found, part: usize) -> anyhow::Result<Self> {
        let (start, header) = found.image(part)?;
        let state_start = start + header.state.first_page * PAGE_BYTES;
        let bytes = usize::try_from(header.state.bytes.next_multiple_of(PAGE_BYTES))?;
        let mut state = vec![0; bytes];
        file.read_exact_at(&mut state, state_start)?;
        let header = read_page(file, start)?;
        Ok(Image {
            start,
            header,
            state_start,
            state,
        })
    }

    /// Writes header and state with right checksums. Returns the header's.
    fn write(&mut self, file: &File) -> anyhow::Result<u64> {
        let mut hasher = PageHasher::new();
        for bytes in self.state.chunks_exact(size_of::<Page>()) {
            let mut page = Page::ZERO;
            page.as_mut_bytes().copy_from_slice(bytes);
            hasher.page(&page);
        }
        self.header.0[STATE_DIGEST] = hasher.finish();
        self.header.0[CHECKSUM] = checksum::of_words_but(&self.header.0, CHECKSUM);
        file.write_all_at(&self.state, self.state_start)?;
        file.write_all_at(self.header.as_bytes(), self.start)?;
        Ok(self.header.0[CHECKSUM])
    }

    /// The payload of an owner's first section.
    fn section(&self, owner: &[u8; 4]) -> anyhow::Result<std::ops::Range<usize>> {
        let mut at = 0;
        while let Some(head) = self.state[at..].first_chunk::<HEAD>() {
            let (_, length) = head.split_last_chunk().context("a head has two words")?;
            let bytes = usize::try_from(u64::from_le_bytes(*length))?;
            if head.starts_with(owner) {
                return Ok(at + HEAD..at + HEAD + bytes);
            }
            at += HEAD + bytes.next_multiple_of(8);
            ensure!(
                bytes > 0 && at < self.state.len(),
                "the state has no such section"
            );
        }
        anyhow::bail!("the state has no such section")
    }

    /// Sets a word of an owner's first section.
    fn set(&mut self, owner: &[u8; 4], word: usize, value: u64) -> anyhow::Result<()> {
        let payload = self.section(owner)?;
        let (words, _) = self.state[payload].as_chunks_mut::<8>();
        words[word] = value.to_le_bytes();
        Ok(())
    }

    /// Lets each source of the APLIC send the interrupt to a hart of its own.
    fn set_targets(&mut self, identity: u32) -> anyhow::Result<()> {
        let payload = self.section(b"APLC")?;
        let (words, _) = self.state[payload].as_chunks_mut::<4>();
        // A mode and a target for each source, enables with that of source 0, and DOMAINCFG.
        let count = words.len();
        let is_right = |sources: &usize| 2 * sources + sources / 32 + 2 == count;
        let sources = (1..count)
            .find(is_right)
            .context("the APLIC has no targets")?;
        for (hart, source) in (0..).zip(0..sources) {
            words[source] = ACTIVE_LOW.to_le_bytes();
            words[sources + source] = (hart << TARGET_HART | identity).to_le_bytes();
        }
        words[2 * sources..count - 1].fill([0xff; 4]);
        words[count - 1] = DELIVERS.to_le_bytes();
        Ok(())
    }
}

fn read_page(file: &File, offset: u64) -> anyhow::Result<Page> {
    let mut page = Page::ZERO;
    file.read_exact_at(page.as_mut_bytes(), offset)?;
    Ok(page)
}

/// Writes a record with the right checksum.
fn write_record(file: &File, found: &Found, mut record: Page) -> anyhow::Result<()> {
    let words = &mut record.0[..RECORD_WORDS];
    words[CHECKSUM] = checksum::of_words_but(words, CHECKSUM);
    Ok(file.write_all_at(record.as_bytes(), found.record())?)
}
