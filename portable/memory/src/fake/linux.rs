//! A small Linux: the parts of a stopped kernel that lead to its free pages.

extern crate std;

mod dump;
mod shape;
mod space;
mod tokens;

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

pub use self::dump::Dump;
use self::shape::Shape;
use self::space::IMAGE;
pub use self::space::{FakeSpace, Places, Rights};
use self::tokens::Tokens;
use super::FakeMemory;
use crate::{OsMemory, PAGE_BYTES, to_usize};

const ZONES: u64 = 2;
const FREE: i32 = -0x1000_0000;

/// The layout of the model's image in pages, after its text.
mod image {
    /// Constants: offsets and numbers, names, tokens.
    pub(super) const OFFSETS: u64 = 1;
    pub(super) const NAMES: u64 = 2;
    pub(super) const TOKENS: u64 = 3;
    pub(super) const DATA: u64 = 4;
    pub(super) const SWAPPER: u64 = 5;
    pub(super) const PAGES: u64 = 6;
}

/// The origin of the offsets in the kernel's symbol table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offsets {
    /// A common base: Linux 6.0 to 6.19.
    FromBase,
    /// Their own addresses: since Linux 7.0.
    FromThemselves,
}

/// Memory with a small, stopped Linux.
#[derive(Debug)]
pub struct SmallLinux {
    /// All memory.
    pub memory: FakeMemory,
    /// The address space of the hart that made the call.
    pub space: FakeSpace,
    places: Places,
    /// The address of the entry for page 0 of physical memory, which may not exist.
    page_array: u64,
    shape: Shape,
    offsets: Offsets,
    /// Physical address of the image.
    image: u64,
    note: u64,
    text: String,
    /// Physical address of the only node.
    node: u64,
    /// The index of the first page that the kernel does not use.
    next: u64,
    symbols: BTreeMap<&'static str, u64>,
}

impl SmallLinux {
    /// A Linux in memory with these ranges. All pages that it does not need are free. The
    /// first range must have at least 64 pages.
    ///
    /// # Panics
    ///
    /// If memory is too small.
    #[must_use]
    pub fn new(places: Places, ranges: &[u64]) -> Self {
        Self::with_offsets(places, ranges, Offsets::FromBase)
    }

    /// The same with either kind of symbol table.
    ///
    /// # Panics
    ///
    /// If memory is too small.
    #[must_use]
    pub fn with_offsets(places: Places, ranges: &[u64], offsets: Offsets) -> Self {
        let mut linux = Self::unbooted(places, ranges, Shape::of(&shape::small()));
        linux.offsets = offsets;
        linux.boot();
        linux
    }

    fn unbooted(places: Places, ranges: &[u64], shape: Shape) -> Self {
        let memory = FakeMemory::new(ranges);
        let first = memory.page(0).address() / PAGE_BYTES / 64 * 64;
        SmallLinux {
            memory,
            space: FakeSpace::default(),
            places,
            page_array: places.page_structs.wrapping_sub(first * shape.page),
            shape,
            offsets: Offsets::FromBase,
            image: 0,
            note: 0,
            text: String::new(),
            node: 0,
            next: 0,
            symbols: BTreeMap::new(),
        }
    }

    fn boot(&mut self) {
        self.image = self.take(image::PAGES);
        self.note = self.take(2);
        self.node = self.take(1);
        self.map_image();
        self.map_memory();
        self.make_symbols();
        self.text = self.note_text();
        self.write_note();
        self.set_word(self.data(8), self.linear(self.note));
        self.set_word(self.data(16), self.linear(self.node));
        self.set_word(self.data(24), 1);
        self.make_node();
        self.free_all_but(|_| false);
    }

    /// The memory, for the firmware.
    #[must_use]
    pub fn os(&self) -> &OsMemory {
        &self.memory.os
    }

    /// The physical address of the note.
    #[must_use]
    pub fn note(&self) -> u64 {
        self.note
    }

    /// The note's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Changes the note's text.
    pub fn set_text(&mut self, text: String) {
        self.text = text;
        self.write_note();
    }

    /// The bytes of a note with this text.
    #[must_use]
    pub fn note_bytes(text: &str) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[0] = 11;
        bytes[4..8].copy_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes[12..22].copy_from_slice(b"VMCOREINFO");
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// The index of the first page that the kernel does not use.
    #[must_use]
    pub fn first_free(&self) -> u64 {
        self.next
    }

    /// The physical address of a symbol's target.
    ///
    /// # Panics
    ///
    /// If there is no such symbol.
    #[must_use]
    pub fn symbol(&self, name: &str) -> u64 {
        self.physical(self.symbols[name])
    }

    /// The physical address of the `struct page` of page `index`.
    ///
    /// # Panics
    ///
    /// If there is no such page.
    #[must_use]
    pub fn page_struct(&self, index: u64) -> u64 {
        self.physical(self.page_address(index))
    }

    /// The physical address of the node's first zone.
    #[must_use]
    pub fn zone(&self) -> u64 {
        self.node + self.shape.node_zones
    }

    /// The physical address of a free list's head.
    #[must_use]
    pub fn list(&self, order: u64, list: u64) -> u64 {
        self.zone() + self.shape.zone_areas + order * self.shape.area + list * 16
    }

    /// The physical address of the first zone's count of free pages.
    fn free_count(&self) -> u64 {
        self.zone() + self.shape.zone_stats
    }

    /// Frees all pages in the largest possible blocks, except those that the kernel or
    /// `used` keeps.
    pub fn free_all_but(&mut self, used: impl Fn(u64) -> bool) {
        let shape = self.shape;
        let mut lists = vec![Vec::new(); to_usize(shape.orders * shape.lists)];
        let total = self.os().pages();
        for index in 0..total {
            let at = self.page_struct(index);
            self.memory.write(at, &vec![0; to_usize(shape.page)]);
            self.memory
                .write(at + shape.mapcount, &(-1_i32).to_le_bytes());
        }
        let is_free = |index: u64| index < total && index >= self.next && !used(index);
        let mut index = 0;
        let mut pages = 0;
        while index < total {
            if !is_free(index) {
                index += 1;
                continue;
            }
            let number = self.number(index);
            let fits = |order: &u64| {
                number.is_multiple_of(1 << order)
                    && (index..index + (1 << order)).all(is_free)
                    && self.number(index + (1 << order) - 1) == number + (1 << order) - 1
            };
            let order = (0..shape.orders).take_while(fits).last().unwrap_or(0);
            lists[to_usize(order * shape.lists + index % shape.lists)].push((index, order));
            index += 1 << order;
            pages += 1 << order;
        }
        for (number, blocks) in (0..).zip(&lists) {
            self.write_list(number / shape.lists, number % shape.lists, blocks);
        }
        for order in 0..shape.orders {
            let of_order = |list| lists[to_usize(order * shape.lists + list)].len() as u64;
            let blocks = (0..shape.lists).map(of_order).sum();
            self.set_word(self.list(order, shape.lists), blocks);
        }
        self.set_word(self.free_count(), pages);
    }

    fn write_list(&mut self, order: u64, list: u64, blocks: &[(u64, u64)]) {
        let head = self.linear(self.list(order, list));
        let mut links: Vec<u64> = blocks
            .iter()
            .map(|(index, _)| self.page_address(*index) + self.shape.lru)
            .collect();
        links.push(head);
        let mut before = head;
        for (place, next) in links.iter().enumerate() {
            self.set_word(self.physical(before), *next);
            self.set_word(self.physical(*next) + 8, before);
            before = *next;
            if let Some((index, order)) = blocks.get(place) {
                let at = self.page_struct(*index);
                self.mark(at, *order);
            }
        }
    }

    /// Links page `index` as the start of a block into the first list of `order`, without
    /// any checks, and counts the block.
    pub fn link(&mut self, index: u64, order: u64) {
        let list = self.list(order, 0);
        let (head, links) = (self.linear(list), self.page_address(index) + self.shape.lru);
        let (next, at) = (self.word(list), self.page_struct(index));
        self.mark(at, order);
        self.set_word(at + self.shape.lru, next);
        self.set_word(at + self.shape.lru + 8, head);
        self.set_word(self.physical(next) + 8, links);
        self.set_word(list, links);
        let (blocks, pages) = (self.list(order, self.shape.lists), self.free_count());
        self.set_word(blocks, self.word(blocks) + 1);
        self.set_word(pages, self.word(pages) + (1 << order));
    }

    /// Marks a block as free in the `struct page` of its first page.
    fn mark(&mut self, page: u64, order: u64) {
        self.memory
            .write(page + self.shape.mapcount, &FREE.to_le_bytes());
        self.set_word(page + self.shape.private, order);
    }

    /// Changes a 64-bit word.
    pub fn set_word(&mut self, at: u64, value: u64) {
        self.memory.write(at, &value.to_le_bytes());
    }

    /// Takes pages for the kernel. Returns the physical address of the first.
    ///
    /// # Panics
    ///
    /// If memory is too small.
    pub fn take(&mut self, pages: u64) -> u64 {
        let first = self.memory.page(self.next).address();
        let last = self.memory.page(self.next + pages - 1).address();
        assert_eq!(last - first, (pages - 1) * PAGE_BYTES, "one range");
        self.next += pages;
        first
    }

    /// The page frame number.
    fn number(&self, index: u64) -> u64 {
        self.memory.page(index).address() / PAGE_BYTES
    }

    fn linear(&self, physical: u64) -> u64 {
        self.places.linear_map + (physical - self.memory.page(0).address())
    }

    fn page_address(&self, index: u64) -> u64 {
        self.page_array
            .wrapping_add(self.number(index) * self.shape.page)
    }

    /// The physical address of an offset in the image's data.
    fn data(&self, offset: u64) -> u64 {
        self.image + image::DATA * PAGE_BYTES + offset
    }

    fn physical(&self, address: u64) -> u64 {
        self.space.physical(address).expect("a mapping")
    }

    fn map_image(&mut self) {
        for page in 0..image::PAGES {
            let rights = match page {
                image::DATA | image::SWAPPER => Rights::Write,
                _ => Rights::Read,
            };
            let offset = page * PAGE_BYTES;
            self.space.map(IMAGE + offset, self.image + offset, rights);
        }
    }

    /// Maps all memory and the page structures.
    fn map_memory(&mut self) {
        for index in 0..self.os().pages() {
            let page = self.memory.page(index).address();
            self.space.map(self.linear(page), page, Rights::Write);
            let entry = self.page_address(index);
            if self.space.physical(entry).is_none() {
                let page = self.take(1);
                self.space
                    .map(entry / PAGE_BYTES * PAGE_BYTES, page, Rights::Write);
            }
        }
    }

    /// All mapped pages: virtual address, physical address, rights.
    #[must_use]
    pub fn mapped(&self) -> Vec<(u64, u64, Rights)> {
        self.space.pages().collect()
    }

    /// Reads a 64-bit word.
    ///
    /// # Panics
    ///
    /// If it is not OS memory.
    #[must_use]
    pub fn word(&self, at: u64) -> u64 {
        let page = self.os().page_at(at).expect("OS memory");
        self.os().page(page).0[to_usize(at % PAGE_BYTES / 8)]
    }

    fn make_node(&mut self) {
        let node = self.node;
        let first = self.number(0);
        let spanned = self.number(self.os().pages() - 1) + 1 - first;
        let shape = self.shape;
        for (offset, value) in [
            (shape.node_zone_count, ZONES),
            (shape.node_start, first),
            (shape.node_spanned, spanned),
            (shape.node_zones + shape.zone_spanned, spanned),
        ] {
            self.set_word(node + offset, value);
        }
    }

    fn make_symbols(&mut self) {
        let data = IMAGE + image::DATA * PAGE_BYTES;
        let long: &'static str = "a_name_of_many_letters_that_takes_more_than_one_byte_for_its_length_as_it_is_longer_than_what_seven_bits_can_say_which_is_one_hundred_and_twenty_seven";
        let symbols = [
            ("_stext", IMAGE),
            ("_stext_not", IMAGE + 8),
            (long, IMAGE + 16),
            ("vmcoreinfo_notes", data),
            ("vmcoreinfo_note", data + 8),
            ("vmcoreinfo_not", data + 12),
            ("node_data", data + 16),
            ("_page_poisoning_enabled", data + 32),
            ("init_on_free", data + 40),
            ("_debug_pagealloc_enabled", data + 48),
            ("swapper_pg_dir", IMAGE + image::SWAPPER * PAGE_BYTES),
        ];
        let tokens = Tokens::new();
        let mut names = Vec::new();
        let at = |page: u64| self.image + page * PAGE_BYTES;
        let (offsets, named, token_page) =
            (at(image::OFFSETS), at(image::NAMES), at(image::TOKENS));
        for (number, (name, address)) in (0..).zip(&symbols) {
            names.extend(tokens.name(&format!("D{name}")));
            let from = match self.offsets {
                Offsets::FromBase => IMAGE,
                Offsets::FromThemselves => IMAGE + image::OFFSETS * PAGE_BYTES + 4 * number,
            };
            let offset = address.wrapping_sub(from).to_le_bytes();
            self.memory.write(offsets + 4 * number, &offset[..4]);
        }
        self.memory.write(named, &names);
        self.memory.write(token_page, &tokens.index);
        self.memory.write(token_page + 512, &tokens.texts);
        self.set_word(offsets + 2048, symbols.len() as u64);
        self.set_word(offsets + 2056, IMAGE);
        self.symbols.extend(symbols);
    }

    fn write_note(&mut self) {
        let bytes = Self::note_bytes(&self.text);
        self.memory.write(self.note, &bytes);
    }

    fn note_text(&self) -> String {
        let constant = |page: u64, offset: u64| IMAGE + page * PAGE_BYTES + offset;
        let addresses = [
            ("node_online_map", constant(image::DATA, 24)),
            ("swapper_pg_dir", constant(image::SWAPPER, 0)),
            ("_stext", IMAGE),
            ("vmemmap", self.page_array),
            ("kallsyms_names", constant(image::NAMES, 0)),
            ("kallsyms_num_syms", constant(image::OFFSETS, 2048)),
            ("kallsyms_token_table", constant(image::TOKENS, 512)),
            ("kallsyms_token_index", constant(image::TOKENS, 0)),
            ("kallsyms_offsets", constant(image::OFFSETS, 0)),
        ];
        let base = ("kallsyms_relative_base", constant(image::OFFSETS, 2056));
        let base = (self.offsets == Offsets::FromBase).then_some(base);
        let layout = [
            ("PAGE_OFFSET", self.places.linear_map),
            ("VMEMMAP_START", self.places.page_structs),
            ("VMEMMAP_END", self.places.page_structs + (1 << 32)),
        ];
        let mut lines = vec![
            String::from("OSRELEASE=6.12.0-small"),
            String::from("PAGESIZE=4096"),
            format!("NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)={FREE}"),
        ];
        let addresses = addresses.into_iter().chain(base);
        lines.extend(addresses.map(|(name, value)| format!("SYMBOL({name})={value:x}")));
        lines.extend(shape::small().lines().map(String::from));
        lines.extend(layout.map(|(name, value)| format!("NUMBER({name})={value:#x}")));
        lines.join("\n") + "\n"
    }
}
