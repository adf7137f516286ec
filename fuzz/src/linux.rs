//! The blocks that Linux leaves to a sleep area, from a disk's plain bytes: an oracle.
//!
//! Its rules are those of Linux's `block/partitions/efi.c` without `gpt` on the command line,
//! and of `mkswap` and `mdadm`. It shares no code with the crate `store`.

use gpt_disk_types::Crc32;
use gpt_disk_types::crc::Crc;

/// The type of a sleep area's partition, as on the disk (docs/image-format.md).
const AREA: [u8; 16] = [
    0xc3, 0xe3, 0x63, 0x30, 0x5c, 0xc5, 0x95, 0x43, 0xbc, 0x5f, 0x8f, 0x60, 0x54, 0x5a, 0xd2, 0x28,
];

/// The most entries that Poorwill reads, and the most areas.
const MAX_ENTRIES: u64 = 8192;
const MAX_AREAS: usize = 8;

/// An entry in use.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    is_area: bool,
    first: u64,
    last: u64,
}

/// One copy of a table that is valid by itself.
#[derive(Clone, Debug)]
struct Table {
    entries: Vec<Entry>,
    usable: (u64, u64),
    alternate: u64,
    array: (u64, u64),
}

/// A disk to judge.
#[derive(Clone, Copy, Debug)]
pub struct Disk<'d> {
    /// All its bytes.
    pub bytes: &'d [u8],
    /// The length of a block in bytes.
    pub block: u64,
}

/// What a search for areas must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These areas, by first and last byte: Linux shows them, and nothing else claims their blocks.
    Areas(Vec<(u64, u64)>),
    /// A refusal: there is a partition for an area, and it is not free.
    Refused,
    /// No area: either an empty result or a refusal.
    Nothing,
}

impl Disk<'_> {
    /// What a search for areas must find on it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.blocks() < 3 || !self.announces_table() {
            return Verdict::Nothing;
        }
        let has_area = |table: &Table| table.entries.iter().any(|entry| entry.is_area);
        let Some(table) = self.table(1) else {
            let backup = self.table(self.blocks() - 1);
            return match backup.is_some_and(|backup| has_area(&backup)) {
                true => Verdict::Refused,
                false => Verdict::Nothing,
            };
        };
        if !has_area(&table) {
            return Verdict::Areas(Vec::new());
        }
        let areas: Vec<_> = table.entries.iter().filter(|entry| entry.is_area).collect();
        let is_free = areas.iter().all(|area| self.is_free(&table, area));
        let is_sound = table.entries.iter().all(|entry| entry.first <= entry.last);
        if !is_free || !is_sound || areas.len() > MAX_AREAS || self.is_used_as_a_whole(&table) {
            return Verdict::Refused;
        }
        let bytes = |area: &&Entry| (area.first * self.block, (area.last + 1) * self.block - 1);
        Verdict::Areas(areas.iter().map(bytes).collect())
    }

    fn blocks(&self) -> u64 {
        self.bytes.len() as u64 / self.block
    }

    fn word(&self, at: u64) -> u64 {
        let bytes = &self.bytes[at as usize..][..4];
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte))
    }

    fn long(&self, at: u64) -> u64 {
        self.word(at) | (self.word(at + 4) << 32)
    }

    fn has(&self, at: u64, mark: &[u8]) -> bool {
        self.bytes[at as usize..].starts_with(mark)
    }

    fn announces_table(&self) -> bool {
        let is_protective =
            |record: usize| self.bytes[record + 4] == 0xee && self.word(record as u64 + 8) == 1;
        self.has(510, &[0x55, 0xaa]) && (0..4).any(|record| is_protective(446 + 16 * record))
    }

    /// The partitions of the MBR, by first and last block, except the protective ones.
    fn mbr(&self) -> impl Iterator<Item = (u64, u64)> {
        let records = (0..4).map(|record| 446 + 16 * record);
        let used = records.filter(|at| !matches!(self.bytes[*at as usize + 4], 0 | 0xee));
        let ranges = used.map(|at| (self.word(at + 8), self.word(at + 12)));
        ranges
            .filter(|(_, length)| *length > 0)
            .map(|(first, length)| (first, first + length - 1))
    }

    /// A copy of the table that Linux would use.
    fn table(&self, lba: u64) -> Option<Table> {
        let array = self.header_alone(lba)?;
        let at = lba * self.block;
        let (start, count) = (array.0 * self.block, self.word(at + 80));
        let usable = (self.long(at + 40), self.long(at + 48));
        let entries = &self.bytes[start as usize..][..128 * count as usize];
        if usable.1 >= self.blocks() || checksum(entries) != self.word(at + 88) {
            return None;
        }
        let places = (0..count).map(|index| (index + 1, start + 128 * index));
        let used = places.filter(|(_, at)| !self.has(*at, &[0; 16]));
        let entries = used.map(|(number, at)| Entry {
            number,
            is_area: self.has(at, &AREA),
            first: self.long(at + 32),
            last: self.long(at + 40),
        });
        Some(Table {
            entries: entries.collect(),
            usable,
            alternate: self.long(at + 32),
            array,
        })
    }

    /// Whether Linux shows the area and nothing else claims one of its blocks.
    fn is_free(&self, table: &Table, area: &Entry) -> bool {
        let Entry { first, last, .. } = *area;
        let is_shown = area.number < 256 && first <= last && last < self.blocks();
        let is_usable = table.usable.0 <= first && last <= table.usable.1;
        let others = table
            .entries
            .iter()
            .filter(|other| other.number != area.number);
        let others = others.map(|other| (other.first, other.last));
        let mbr = self.mbr().filter(|range| *range != (first, last));
        let mut claims = others.chain(mbr).chain(self.own_blocks(table));
        is_shown && is_usable && !claims.any(|claim| claim.0 <= last && first <= claim.1)
    }

    /// The blocks of both copies of the table.
    fn own_blocks(&self, table: &Table) -> Vec<(u64, u64)> {
        let mut own = vec![(0, 1), table.array];
        let length = table.array.1 - table.array.0 + 1;
        if length <= table.alternate {
            own.push((table.alternate - length, table.alternate));
        }
        for lba in [table.alternate, self.blocks() - 1] {
            if lba < self.blocks()
                && let Some(backup) = self.header_alone(lba)
            {
                own.extend([(lba, lba), backup]);
            }
        }
        own
    }

    /// The entry array of a header that is valid by itself, whatever its entries say.
    fn header_alone(&self, lba: u64) -> Option<(u64, u64)> {
        let at = lba * self.block;
        let header_bytes = self.word(at + 12);
        if !self.has(at, b"EFI PART") || !(92..=self.block).contains(&header_bytes) {
            return None;
        }
        let mut header = self.bytes[at as usize..][..header_bytes as usize].to_vec();
        header[16..20].fill(0);
        let (first, count) = (self.long(at + 72), self.word(at + 80));
        let end = first.checked_add((128 * count).div_ceil(self.block))?;
        let is_valid = checksum(&header) == self.word(at + 16)
            && self.long(at + 24) == lba
            && self.long(at + 40) <= self.long(at + 48)
            && self.word(at + 84) == 128
            && (1..=MAX_ENTRIES).contains(&count)
            && end <= self.blocks();
        is_valid.then(|| (first, end - 1))
    }

    /// Whether the whole disk is swap, of LVM, or a member of a software RAID.
    fn is_used_as_a_whole(&self, table: &Table) -> bool {
        let length = self.bytes.len() as u64;
        let is_gap = |at: u64| {
            let block = at / self.block;
            let is_array = (table.array.0..=table.array.1).contains(&block);
            at < length && block != 1 && !is_array && block < table.usable.0
        };
        let marks: [(u64, &[u8]); 7] = [
            (4086, b"SWAPSPACE2"),
            (4086, b"SWAP-SPACE"),
            (4086, b"S1SUSPEND\0"),
            (512, b"LABELONE"),
            (1024, b"LABELONE"),
            (1536, b"LABELONE"),
            (4096, &RAID),
        ];
        let raid_1 = (length / 512 - 16) / 8 * 8;
        let is_raid_1 = self.has(raid_1 * 512, &RAID)
            && self.word(raid_1 * 512 + 4) == 1
            && self.long(raid_1 * 512 + 144) == raid_1;
        marks
            .iter()
            .any(|(at, mark)| is_gap(*at) && self.has(*at, mark))
            || is_raid_1
            || self.is_raid_0_90(table)
    }

    fn is_raid_0_90(&self, table: &Table) -> bool {
        let Some(at) = (self.bytes.len() as u64 / 65536)
            .checked_sub(1)
            .map(|unit| unit * 65536)
        else {
            return false;
        };
        let is_there = self.has(at, &RAID) && self.word(at + 4) == 0 && self.word(at + 8) == 90;
        let block = at / self.block;
        let around = table
            .entries
            .iter()
            .filter(|entry| (entry.first..=entry.last).contains(&block));
        let data = self.word(at + 32) * 1024;
        is_there
            && !around
                .clone()
                .any(|entry| data <= at - entry.first * self.block)
    }
}

/// The first bytes of a software RAID's superblock.
const RAID: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

fn checksum(bytes: &[u8]) -> u64 {
    Crc::<u32>::new(&Crc32::ALGORITHM).checksum(bytes).into()
}
