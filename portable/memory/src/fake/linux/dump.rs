extern crate std;

use std::str::FromStr;
use std::string::String;
use std::vec::Vec;

use super::shape::{Shape, said};
use super::space::IMAGE;
use super::{Places, Rights, SmallLinux};
use crate::{PAGE_BYTES, to_usize};

/// Excerpts of a real kernel's memory: its note, and the tokens and some entries of its
/// symbol table.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The note's text.
    pub note: String,
    count: u32,
    base: Option<u64>,
    token_table: Vec<u8>,
    token_index: Vec<u8>,
    entries: Vec<Entry>,
}

/// An entry of the symbol table.
#[derive(Clone, Debug)]
struct Entry {
    number: u32,
    address: u64,
    offset: u32,
    coded: Vec<u8>,
    name: &'static str,
}

impl Dump {
    /// Parses a dump: sections that each follow their name in brackets.
    ///
    /// # Panics
    ///
    /// If the text is not a dump.
    #[must_use]
    pub fn read(text: &'static str) -> Self {
        let section = |name: &str| {
            let (_, rest) = text.split_once(name)?;
            let end = rest.find("\n[").map_or(rest.len(), |end| end + 1);
            Some(&rest[..end])
        };
        let must = |name| section(name).expect("a section");
        Dump {
            note: must("[note]\n").into(),
            count: number(must("[count]\n").trim()),
            base: section("[base]\n").map(|base| hexadecimal(base.trim())),
            token_table: bytes(must("[token_table]\n")),
            token_index: bytes(must("[token_index]\n")),
            entries: must("[symbols]\n").lines().map(entry).collect(),
        }
    }

    /// The address for a key of the note.
    fn address(&self, key: &str) -> u64 {
        hexadecimal(said(&self.note, key))
    }

    /// The symbol table's names. Entries that the dump omits have a name of one token.
    fn names(&self) -> Vec<u8> {
        let mut entries = self.entries.iter().peekable();
        let mut names = Vec::new();
        for number in 0..self.count {
            match entries.next_if(|entry| entry.number == number) {
                Some(entry) => names.extend(&entry.coded),
                None => names.extend([1, b't']),
            }
        }
        names
    }
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().ok().expect("a number")
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("a hexadecimal number")
}

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| {
            let pair = core::str::from_utf8(pair).expect("digits");
            u8::from_str_radix(pair, 16).expect("two digits")
        })
        .collect()
}

fn entry(line: &'static str) -> Entry {
    let parts: Vec<&str> = line.split(' ').collect();
    let [of, address, offset, coded, name] = parts[..] else {
        panic!("no symbol: {line}");
    };
    Entry {
        number: number(of),
        address: hexadecimal(address),
        offset: u32::from_str_radix(offset, 16).expect("an offset"),
        coded: bytes(coded),
        name,
    }
}

impl SmallLinux {
    /// A real kernel's image and layout in memory with these ranges. Memory that the dump
    /// omits is made up. The first range must have at least 500 pages.
    ///
    /// # Panics
    ///
    /// If memory is too small.
    #[must_use]
    pub fn dumped(dump: &Dump, ranges: &[u64]) -> Self {
        let mut linux = Self::unbooted(Places::ALL[2], ranges, Shape::of(&dump.note));
        linux.page_array = dump.address("SYMBOL(vmemmap)");
        linux.text.clone_from(&dump.note);
        linux.note = linux.take(2);
        linux.node = linux.take(linux.shape.node.div_ceil(PAGE_BYTES));
        linux.map_memory();
        linux.put_symbols(dump);
        linux.write_note();
        let pointers = [
            (linux.symbols["vmcoreinfo_note"], linux.note),
            (linux.symbols["node_data"], linux.node),
        ];
        for (at, physical) in pointers {
            let pointer = linux.linear(physical);
            linux.put(at, &pointer.to_le_bytes(), Rights::Write);
        }
        let online = dump.address("SYMBOL(node_online_map)");
        linux.put(online, &1_u64.to_le_bytes(), Rights::Write);
        linux.make_node();
        linux.free_all_but(|_| false);
        linux
    }

    fn put_symbols(&mut self, dump: &Dump) {
        let constants = [
            (
                "SYMBOL(kallsyms_num_syms)",
                dump.count.to_le_bytes().to_vec(),
            ),
            ("SYMBOL(kallsyms_names)", dump.names()),
            ("SYMBOL(kallsyms_token_table)", dump.token_table.clone()),
            ("SYMBOL(kallsyms_token_index)", dump.token_index.clone()),
        ];
        for (key, bytes) in constants {
            self.put(dump.address(key), &bytes, Rights::Read);
        }
        if let Some(base) = dump.base {
            let at = dump.address("SYMBOL(kallsyms_relative_base)");
            self.put(at, &base.to_le_bytes(), Rights::Read);
        }
        let offsets = dump.address("SYMBOL(kallsyms_offsets)");
        for entry in &dump.entries {
            let at = offsets + 4 * u64::from(entry.number);
            self.put(at, &entry.offset.to_le_bytes(), Rights::Read);
            self.symbols.insert(entry.name, entry.address);
            // The kernel's debug switches are off.
            self.put(entry.address, &[], Rights::Write);
        }
    }

    /// Writes bytes at an address of the image, and maps it as needed.
    fn put(&mut self, address: u64, bytes: &[u8], rights: Rights) {
        assert!(address >= IMAGE, "the image");
        let start = address / PAGE_BYTES * PAGE_BYTES;
        for page in (start..=address + bytes.len() as u64).step_by(to_usize(PAGE_BYTES)) {
            if self.space.physical(page).is_none() {
                let physical = self.take(1);
                self.space.map(page, physical, rights);
            }
        }
        for (at, byte) in (address..).zip(bytes) {
            let physical = self.physical(at);
            self.memory.write(physical, &[*byte]);
        }
    }
}
