//! What is on a device, sector by sector, and what a power cut can make of it.

use std::collections::{BTreeMap, HashMap};

use poorwill_memory::Page;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes that a device writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Sectors of a page.
pub(crate) const PAGE_SECTORS: u32 = 8;

/// The contents of a sector, by number; see [`Contents`].
pub(crate) type Content = u32;

/// A sector that holds zeros.
pub(crate) const ZEROS: Content = 0;

/// Every content that a sector ever had, each once.
pub(crate) struct Contents {
    bytes: Vec<[u8; SECTOR_BYTES]>,
    numbers: HashMap<[u8; SECTOR_BYTES], Content>,
}

impl Contents {
    pub(crate) fn new() -> Self {
        let mut contents = Contents {
            bytes: Vec::new(),
            numbers: HashMap::new(),
        };
        contents.number(&[0; SECTOR_BYTES]);
        contents
    }

    pub(crate) fn number(&mut self, bytes: &[u8]) -> Content {
        let bytes: &[u8; SECTOR_BYTES] = bytes.try_into().expect("a sector");
        if let Some(number) = self.numbers.get(bytes) {
            return *number;
        }
        let number = Content::try_from(self.bytes.len()).expect("fewer contents than that");
        self.bytes.push(*bytes);
        self.numbers.insert(*bytes, number);
        number
    }

    pub(crate) fn bytes(&self, content: Content) -> &[u8; SECTOR_BYTES] {
        &self.bytes[content as usize]
    }

    /// The page that begins with a sector of this content, and is zero behind.
    pub(crate) fn page(&self, content: Content) -> Page {
        let mut page = Page::ZERO;
        page.as_mut_bytes()[..SECTOR_BYTES].copy_from_slice(self.bytes(content));
        page
    }

    /// The word of a sector that begins at a byte.
    pub(crate) fn word(&self, content: Content, at: usize) -> u64 {
        u64::read_from_bytes(&self.bytes(content)[at..at + 8]).expect("eight bytes")
    }
}

/// A device's sectors: what a power cut leaves for certain, and what it may
/// leave in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// What is on the device for good; a sector that is not listed is zero.
    pub(crate) durable: BTreeMap<u32, Content>,
    /// What was written since and may be there instead, from the earliest to
    /// the latest: a power cut leaves the durable content or any of these.
    pub(crate) pending: BTreeMap<u32, Vec<Content>>,
}

impl Sectors {
    /// What a read sees.
    pub(crate) fn now(&self, sector: u32) -> Content {
        let latest = self.pending.get(&sector).and_then(|list| list.last());
        latest.copied().unwrap_or_else(|| self.lasting(sector))
    }

    /// What is there for good.
    pub(crate) fn lasting(&self, sector: u32) -> Content {
        self.durable.get(&sector).copied().unwrap_or(ZEROS)
    }

    /// All that a sector can hold after a power cut, each once.
    pub(crate) fn versions(&self, sector: u32) -> Vec<Content> {
        let mut versions = vec![self.lasting(sector)];
        for content in self.pending.get(&sector).into_iter().flatten() {
            if !versions.contains(content) {
                versions.push(*content);
            }
        }
        versions
    }

    /// A write has begun.
    pub(crate) fn begin(&mut self, sector: u32, content: Content) {
        if self.now(sector) != content || self.pending.contains_key(&sector) {
            self.pending.entry(sector).or_default().push(content);
        }
    }

    /// A content is there for good.
    pub(crate) fn settle(&mut self, sector: u32, content: Content) {
        self.pending.remove(&sector);
        if content == ZEROS {
            self.durable.remove(&sector);
        } else {
            self.durable.insert(sector, content);
        }
    }

    /// Everything that was written is there for good.
    pub(crate) fn settle_all(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.pending) {
            if let Some(latest) = versions.last() {
                self.settle(sector, *latest);
            }
        }
    }
}

/// One thing that a power cut decides: the ways it can go, each with what the
/// sectors concerned then hold.
type Decision = Vec<Vec<(u32, Content)>>;

/// How finely a page that was being written is torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tears {
    /// Each sector on its own: every subset.
    EverySector,
    /// By page: old, new, only its first sector new, only its first sector old.
    /// For sealed pages, of which every sector differs.
    ByPage,
}

/// Calls `leaf` with each way in which a power cut can leave the `listed`
/// sectors of `sectors`; the others stay as they lastingly are.
pub(crate) fn every_outcome(
    sectors: &Sectors,
    listed: &[u32],
    tears: Tears,
    leaf: &mut dyn FnMut(Sectors),
) {
    let mut decisions: Vec<Decision> = Vec::new();
    for group in groups(listed, tears) {
        let ways = match (tears, group) {
            (Tears::ByPage, group) if group.len() > 1 => page_ways(sectors, group),
            (_, group) => {
                let sector = group[0];
                let versions = sectors.versions(sector).into_iter();
                versions.map(|content| vec![(sector, content)]).collect()
            }
        };
        decisions.push(ways);
    }
    let count: usize = decisions.iter().map(Vec::len).product();
    assert!(count <= 1 << 14, "{count} outcomes of one cut are too many");
    for mut number in 0..count {
        let mut outcome = sectors.clone();
        for ways in &decisions {
            for (sector, content) in &ways[number % ways.len()] {
                outcome.settle(*sector, *content);
            }
            number /= ways.len();
        }
        leaf(outcome);
    }
}

/// Sectors that are decided on together.
fn groups(listed: &[u32], tears: Tears) -> impl Iterator<Item = &[u32]> {
    listed.chunk_by(move |one, next| {
        tears == Tears::ByPage && one / PAGE_SECTORS == next / PAGE_SECTORS
    })
}

fn page_ways(sectors: &Sectors, group: &[u32]) -> Decision {
    let old = |sector: &u32| (*sector, sectors.lasting(*sector));
    let new = |sector: &u32| (*sector, sectors.now(*sector));
    let (first, rest) = group.split_first().expect("a group has sectors");
    vec![
        group.iter().map(old).collect(),
        group.iter().map(new).collect(),
        [new(first)]
            .into_iter()
            .chain(rest.iter().map(old))
            .collect(),
        [old(first)]
            .into_iter()
            .chain(rest.iter().map(new))
            .collect(),
    ]
}
