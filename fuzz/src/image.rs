//! Images made of inputs: whole, with checksums that fit, but for what the
//! input changes.

use poorwill_image::{Expected, FORMAT_VERSION, Here, ImageKind, PIECE_PAGES, Trust, Workspace};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{MachineIdentity, PAGE_BYTES, Page, PageHasher, PageMap, checksum, to_usize};
use zerocopy::IntoBytes;

use crate::{Cases, Input, disk};

/// The machine that the images are of.
pub const IDENTITY: MachineIdentity = MachineIdentity {
    memory: 1,
    harts: 2,
    isa: 3,
    device_tree: 4,
};

/// That machine with so much memory, which trusts plain images.
#[must_use]
pub fn here(os_pages: u64) -> Here<'static> {
    Here {
        identity: IDENTITY,
        os_pages,
        trust: Trust::Plain,
        is_clear: true,
    }
}

/// Words of the header (`docs/image-format.md`).
mod word {
    pub(super) const CHECKSUM: usize = 2;
    pub(super) const GENERATION: usize = 3;
    /// First pages of map, data, free runs and strided fills.
    pub(super) const MAP: usize = 19;
    pub(super) const DATA: usize = 29;
    pub(super) const FREE: usize = 34;
    pub(super) const STRIDED_FILLS: usize = 39;
}

/// A slot with an image.
#[derive(Debug)]
pub struct Forged {
    /// The slot.
    pub slot: FakeMedium,
    /// What a record would say of it.
    pub committed: Expected,
    /// Nothing was changed: the image must load.
    pub is_whole: bool,
    header: Page,
}

impl Forged {
    /// An image for `os_pages` pages of memory, with this state.
    ///
    /// # Panics
    ///
    /// When it is larger than images are here.
    pub fn new(input: &mut Input<'_>, os_pages: u64, state: &[u8]) -> Forged {
        let map = map(input, os_pages);
        let saved = map.iter().map(|word| u64::from(word.count_ones())).sum();
        let data: Vec<Page> = (0..saved).map(|_| page(input)).collect();
        let digests: Vec<[u64; 2]> = data.chunks(to_usize(PIECE_PAGES)).map(digest).collect();
        let mut header = [0; 512];
        header[0] = u64::from_le_bytes(*b"POORWILL");
        header[1] = u64::from(FORMAT_VERSION) | 4096 << 32;
        header[3..9].copy_from_slice(&[1, 0, os_pages, saved, PIECE_PAGES, 6]);
        header[9..13].copy_from_slice(&[1, 2, 3, 4]);
        let runs = free_runs(input, &map, os_pages);
        let tables = strided_fills(input, &runs, os_pages);
        let sections = [
            state,
            map.as_bytes(),
            runs.as_bytes(),
            tables.as_bytes(),
            digests.as_bytes(),
            data.as_bytes(),
        ];
        // Of each, in this order.
        let kinds = [1, 2, 5, 6, 3, 4];
        let mut slot = FakeMedium::new(20 * PAGE_BYTES + pages(&sections) * PAGE_BYTES)
            .with_limits(1 + to_usize(input.below(64)), 1 + to_usize(input.below(8)))
            .with_seed(input.any());
        let mut free = 1;
        for (kind, section) in kinds.into_iter().zip(sections) {
            let first = free + input.below(4);
            disk::put(&mut slot, first * PAGE_BYTES, section);
            let bytes = match kind {
                2 => PageMap::pages_needed(os_pages) * PAGE_BYTES,
                _ => section.len() as u64,
            };
            free = first + bytes.div_ceil(PAGE_BYTES);
            let place = to_usize(first * PAGE_BYTES)..to_usize(free * PAGE_BYTES);
            let sum = match kind {
                4 => 0,
                _ => hash(&words(&slot.bytes()[place])),
            };
            let entry = [kind as u64, first, bytes, sum, 0];
            header[8 + 5 * kind..13 + 5 * kind].copy_from_slice(&entry);
        }
        let mut image = Forged {
            slot,
            committed: Expected {
                header_checksum: 0,
                generation: 0,
                kind: ImageKind::Once,
            },
            is_whole: names_only(&map, os_pages)
                && are_free(&runs, &map, os_pages)
                && are_apart(&tables, &runs, os_pages),
            header: Page(header),
        };
        image.commit();
        image
    }

    /// Lets the input change the header, whose checksum still fits, and turn
    /// over bits anywhere.
    pub fn damage(&mut self, input: &mut Input<'_>) {
        for _ in 0..input.below(4) {
            let word = match input.below(8) {
                0 => to_usize(input.below(512)),
                _ => 1 + to_usize(input.below(50)),
            };
            self.header.0[word] = match input.below(3) {
                0 => self.header.0[word]
                    .wrapping_add(input.below(5))
                    .wrapping_sub(2),
                1 => self.header.0[word] ^ 1 << input.below(64),
                _ => input.edgy(),
            };
            self.is_whole = false;
        }
        self.commit();
        for _ in 0..input.below(3) {
            let length = self.slot.bytes().len() as u64;
            self.slot.flip(input.below(length), input.any::<u8>() % 8);
            self.is_whole = false;
        }
        if input.one_in(16) {
            self.committed.header_checksum ^= 1;
            self.is_whole = false;
        }
    }

    fn commit(&mut self) {
        let header_checksum = checksum::of_words_but(&self.header.0, word::CHECKSUM);
        self.header.0[word::CHECKSUM] = header_checksum;
        self.committed = Expected {
            header_checksum,
            generation: self.header.0[word::GENERATION],
            kind: ImageKind::Once,
        };
        disk::put(&mut self.slot, 0, self.header.as_bytes());
    }

    /// What memory full of `before` holds once the image was loaded, read from
    /// the slot without the crate that is tested; `None` when the image says
    /// what cannot be.
    #[must_use]
    pub fn contents(&self, os_pages: u64, before: &Page) -> Option<Vec<Page>> {
        let bytes = self.slot.bytes();
        let page = |number: u64| {
            let start = usize::try_from(number.checked_mul(PAGE_BYTES)?).ok()?;
            let words = words(bytes.get(start..start.checked_add(4096)?)?);
            Some(Page(words.try_into().ok()?))
        };
        let map = self.header.0[word::MAP];
        let mut next = self.header.0[word::DATA];
        let mut contents = Vec::new();
        for index in 0..os_pages {
            let bits = page(map.checked_add(index / (8 * PAGE_BYTES))?)?;
            let bit = index % (8 * PAGE_BYTES);
            if bits.0[to_usize(bit / 64)] >> (bit % 64) & 1 == 1 {
                contents.push(page(next)?);
                next = next.checked_add(1)?;
            } else {
                contents.push(self.unsaved(page, index)?);
            }
        }
        let first = page(self.header.0[word::FREE]);
        let entries = to_usize(self.header.0[word::FREE + 1] / 16);
        for entry in 0..entries {
            let words = &first.as_ref()?.0;
            let run = words.get(2 * entry)?..words.get(2 * entry + 1)?;
            let start = to_usize(*run.start);
            let left = contents.get_mut(start..start.checked_add(to_usize(*run.end))?)?;
            left.iter_mut().for_each(|page| page.0 = before.0);
        }
        Some(contents)
    }

    /// What an unsaved page holds that is not free.
    fn unsaved(&self, page: impl Fn(u64) -> Option<Page>, index: u64) -> Option<Page> {
        let first = self.header.0[word::STRIDED_FILLS];
        let count = self.header.0[word::STRIDED_FILLS + 1] / (8 * ENTRY_WORDS as u64);
        let list = [page(first), page(first.checked_add(1)?)];
        let list: Vec<u64> = list.into_iter().flatten().flat_map(|page| page.0).collect();
        for entry in list.chunks(ENTRY_WORDS).take(to_usize(count)) {
            let [first, pages, strided_fill @ ..] = entry else {
                return None;
            };
            if *first <= index && index - first < *pages {
                let (row, step) = strided_fill.split_at_checked(8)?;
                let word = |at: u64| {
                    let rows = (index - first).wrapping_mul(64).wrapping_add(at / 8);
                    let column = to_usize(at % 8);
                    row[column].wrapping_add(step[column].wrapping_mul(rows))
                };
                let words: Vec<u64> = (0..512).map(word).collect();
                return words.try_into().ok().map(Page);
            }
        }
        Some(Page::ZERO)
    }
}

/// 64-bit words of a strided fill: first page, pages, a row, and its step.
const ENTRY_WORDS: usize = 18;

/// Room to work in, full of rubbish that must not matter.
#[must_use]
pub fn workspace(os_pages: u64) -> Vec<Page> {
    vec![Page([0xdead_beef; 512]); to_usize(Workspace::pages_needed(os_pages))]
}

fn map(input: &mut Input<'_>, os_pages: u64) -> Vec<u64> {
    let mut map = vec![0; to_usize(os_pages.div_ceil(64))];
    let all = input.one_in(4);
    for (number, word) in (0..).zip(&mut map) {
        *word = if all { u64::MAX } else { input.any() };
        let left = os_pages - 64 * number;
        if left < 64 && !input.one_in(64) {
            *word &= (1 << left) - 1;
        }
    }
    map
}

/// Runs of pages that are not saved, or now and then of any.
fn free_runs(input: &mut Input<'_>, map: &[u64], os_pages: u64) -> Vec<[u64; 2]> {
    let is_saved = |index: u64| map[to_usize(index / 64)] >> (index % 64) & 1 == 1;
    let mut runs = Vec::new();
    let mut from = 0;
    while from < os_pages && runs.len() < 100 {
        let pages = (from..os_pages).take_while(|index| !is_saved(*index));
        let pages = pages.count() as u64;
        if pages > 0 && input.one_in(2) {
            runs.push([from, 1 + input.below(pages)]);
        }
        from += pages + 1;
    }
    if input.one_in(16) {
        runs.push([input.edgy(), input.edgy()]);
    }
    runs
}

/// StridedFills in pages that are not free, or now and then in any.
fn strided_fills(
    input: &mut Input<'_>,
    runs: &[[u64; 2]],
    os_pages: u64,
) -> Vec<[u64; ENTRY_WORDS]> {
    let mut tables = Vec::new();
    let mut from = 0;
    while from < os_pages && tables.len() < 50 && input.one_in(2) {
        let first = from + input.below(20);
        let mut table = [0; ENTRY_WORDS];
        table[..2].copy_from_slice(&[first, 1 + input.below(100)]);
        table[2..].fill_with(|| input.edgy());
        from = first + table[1];
        tables.push(table);
        if !input.one_in(16) && !are_apart(&tables, runs, os_pages) {
            tables.pop();
        }
    }
    tables
}

/// Whether the strided fills ascend and lie in pages that exist and are not free.
fn are_apart(tables: &[[u64; ENTRY_WORDS]], runs: &[[u64; 2]], os_pages: u64) -> bool {
    let mut from = 0;
    tables.iter().all(|table| {
        let (first, end) = (table[0], table[0].saturating_add(table[1]));
        let ascends = first >= from && table[1] > 0 && end <= os_pages;
        from = end;
        let meets = |run: &[u64; 2]| run[0] < end && first < run[0].saturating_add(run[1]);
        ascends && !runs.iter().any(meets)
    })
}

/// Whether the runs ascend and name pages that exist and are not saved.
fn are_free(runs: &[[u64; 2]], map: &[u64], os_pages: u64) -> bool {
    let is_saved = |index: u64| map[to_usize(index / 64)] >> (index % 64) & 1 == 1;
    let mut from = 0;
    runs.iter().all(|&[first, pages]| {
        let end = first.saturating_add(pages);
        let ascends = first >= from && pages > 0 && end <= os_pages;
        from = end;
        ascends && !(first..end).any(is_saved)
    })
}

/// Whether no bit stands for a page that does not exist.
fn names_only(map: &[u64], os_pages: u64) -> bool {
    os_pages.is_multiple_of(64) || map.last().is_none_or(|word| word >> (os_pages % 64) == 0)
}

/// A page of which little is not zero; some are zero altogether.
fn page(input: &mut Input<'_>) -> Page {
    let mut page = Page::ZERO;
    page.0[to_usize(input.below(512))] = input.any();
    page
}

fn digest(piece: &[Page]) -> [u64; 2] {
    [hash(Page::words(piece)), 0]
}

/// The hash of whole pages.
fn hash(words: &[u64]) -> u64 {
    let mut hasher = PageHasher::new();
    let (pages, _) = words.as_chunks();
    pages.iter().for_each(|page| hasher.page(&Page(*page)));
    hasher.finish()
}

fn pages(sections: &[&[u8]]) -> u64 {
    let pages = |section: &&[u8]| (section.len() as u64).div_ceil(PAGE_BYTES);
    sections.iter().map(pages).sum()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
