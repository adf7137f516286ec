//! Parses a kernel's note: lines `KEY=VALUE` in one or more pages.

use arrayvec::ArrayVec;
use zerocopy::IntoBytes;

use super::error::FreeListError;
use crate::{OsMemory, PAGE_BYTES, Page, to_usize};

/// The longest text of a note in bytes.
const MOST_TEXT: u64 = 4096;

/// The bytes before the text: the header of an ELF note with this name.
const HEADER: u64 = 24;
const NAME: &[u8; 12] = b"VMCOREINFO\0\0";
const NAME_BYTES: u32 = 11;

/// The longest line that is parsed, in bytes; all relevant lines are shorter.
const LINE: usize = 96;

macro_rules! keys {
    ($($key:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Key {
            $($key,)*
        }

        const NAMES: &[&str] = &[$($name,)*];
    };
}

keys! {
    PageSize = "PAGESIZE",
    NodeOnlineMap = "SYMBOL(node_online_map)",
    OnlyNode = "SYMBOL(contig_page_data)",
    SwapperPgDir = "SYMBOL(swapper_pg_dir)",
    TextStart = "SYMBOL(_stext)",
    PageArray = "SYMBOL(vmemmap)",
    PageBytes = "SIZE(page)",
    NodeBytes = "SIZE(pglist_data)",
    ZoneBytes = "SIZE(zone)",
    AreaBytes = "SIZE(free_area)",
    ListBytes = "SIZE(list_head)",
    NodeMaskBytes = "SIZE(nodemask_t)",
    PageLru = "OFFSET(page.lru)",
    PageMapcount = "OFFSET(page._mapcount)",
    PagePrivate = "OFFSET(page.private)",
    NodeZones = "OFFSET(pglist_data.node_zones)",
    NodeZoneCount = "OFFSET(pglist_data.nr_zones)",
    NodeStart = "OFFSET(pglist_data.node_start_pfn)",
    NodeSpanned = "OFFSET(pglist_data.node_spanned_pages)",
    NodeNumber = "OFFSET(pglist_data.node_id)",
    ZoneAreas = "OFFSET(zone.free_area)",
    ZoneStats = "OFFSET(zone.vm_stat)",
    ZoneSpanned = "OFFSET(zone.spanned_pages)",
    AreaLists = "OFFSET(free_area.free_list)",
    ListNext = "OFFSET(list_head.next)",
    ListPrevious = "OFFSET(list_head.prev)",
    Orders = "LENGTH(zone.free_area)",
    Lists = "LENGTH(free_area.free_list)",
    FreePagesStat = "NUMBER(NR_FREE_PAGES)",
    FreeMark = "NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)",
    SymbolNames = "SYMBOL(kallsyms_names)",
    SymbolCount = "SYMBOL(kallsyms_num_syms)",
    TokenTable = "SYMBOL(kallsyms_token_table)",
    TokenIndex = "SYMBOL(kallsyms_token_index)",
    SymbolOffsets = "SYMBOL(kallsyms_offsets)",
    SymbolBase = "SYMBOL(kallsyms_relative_base)",
    LinearMap = "NUMBER(PAGE_OFFSET)",
    PageArrayStart = "NUMBER(VMEMMAP_START)",
    PageArrayEnd = "NUMBER(VMEMMAP_END)",
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    values: [Option<u64>; NAMES.len()],
}

impl Note {
    /// Parses the note at physical address `at`, the start of a page.
    pub(super) fn read(memory: &OsMemory, at: u64) -> Result<Self, FreeListError> {
        let page = memory.page_at(at).filter(|page| page.address() == at);
        let header = page.map(|page| memory.page(page));
        let bytes = header
            .and_then(text_bytes)
            .filter(|bytes| memory.contains(at, HEADER + bytes))
            .ok_or(FreeListError::NotTheKernels)?;
        let mut note = Note {
            values: [None; NAMES.len()],
        };
        let mut line = ArrayVec::<u8, LINE>::new();
        let mut too_long = false;
        for offset in HEADER..HEADER + bytes {
            let Some(page) = memory.page_at(at + offset) else {
                return Err(FreeListError::NotTheKernels);
            };
            match memory.page(page).as_bytes()[to_usize(offset % PAGE_BYTES)] {
                b'\n' => {
                    if !too_long {
                        note.take(&line)?;
                    }
                    line.clear();
                    too_long = false;
                }
                byte => too_long |= line.try_push(byte).is_err(),
            }
        }
        Ok(note)
    }

    /// Parses a line; lines with other keys are ignored.
    fn take(&mut self, line: &[u8]) -> Result<(), FreeListError> {
        let Some((name, text)) = core::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once('='))
        else {
            return Ok(());
        };
        let Some(key) = NAMES.iter().position(|known| *known == name) else {
            return Ok(());
        };
        let value =
            number(text, name.starts_with("SYMBOL")).ok_or(FreeListError::Missing(NAMES[key]))?;
        match self.values[key].replace(value) {
            None => Ok(()),
            Some(_) => Err(FreeListError::Twice(NAMES[key])),
        }
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.values[key as usize].is_some()
    }

    pub(super) fn get(&self, key: Key) -> Result<u64, FreeListError> {
        self.values[key as usize].ok_or(FreeListError::Missing(key.name()))
    }
}

impl Key {
    pub(super) fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Parses a number of a note: an address has only hexadecimal digits; others have C's
/// format. Negative numbers wrap.
fn number(text: &str, address: bool) -> Option<u64> {
    if address {
        u64::from_str_radix(text, 16).ok()
    } else if let Some(digits) = text.strip_prefix("0x") {
        u64::from_str_radix(digits, 16).ok()
    } else if text.starts_with('-') {
        text.parse().ok().map(i64::cast_unsigned)
    } else {
        text.parse().ok()
    }
}

/// The length of the note's text if the page starts like a note.
pub(super) fn text_bytes(page: &Page) -> Option<u64> {
    const fn word(bytes: &[u8; 12], from: usize) -> u64 {
        let mut word = 0;
        let mut at = 0;
        while at < 8 && from + at < bytes.len() {
            word |= (bytes[from + at] as u64) << (8 * at);
            at += 1;
        }
        word
    }
    // The lengths of name and text, the type (0), and the name.
    let [sizes, start, rest, ..] = page.0;
    let named = start == word(NAME, 0) << 32 && rest == word(NAME, 4);
    let bytes = sizes >> 32;
    let sized = sizes & u64::from(u32::MAX) == u64::from(NAME_BYTES) && bytes <= MOST_TEXT;
    (named && sized).then_some(bytes)
}
