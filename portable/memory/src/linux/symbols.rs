//! The kernel's symbol table (kallsyms). Names are in ascending order of address. Each
//! has a length and that number of tokens; a table of 256 tokens has their texts. A
//! name's first character is the symbol's type. The addresses are a separate table in the
//! same order (`offsets.rs`).

use arrayvec::ArrayVec;

use super::address_space::AddressSpace;
use super::error::FreeListError;
use super::kernel::{Constants, Kernel};
use super::note::{Key, Note};
use super::offsets::Origin;

const MOST_SYMBOLS: u32 = 1 << 20;

/// The most bytes of all token texts.
const MOST_TOKEN_BYTES: usize = 4096;

const TOKENS: usize = 256;

/// The required symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    TextStart,
    SwapperPgDir,
    /// The pointer to the kernel's note.
    Note,
    /// The pointers to the memory nodes, in kernels that support several.
    Nodes,
    /// The switches of checks on free pages. A kernel built without a check lacks its
    /// switch.
    PagePoisoning,
    DebugPagealloc,
    OldPagePoisoning,
    /// The switch for zeroing pages when they are freed.
    InitOnFree,
    /// The function with which a suspend of devices begins.
    SuspendStart,
}

const NAMES: [&str; 9] = [
    "_stext",
    "swapper_pg_dir",
    "vmcoreinfo_note",
    "node_data",
    "_page_poisoning_enabled",
    "_debug_pagealloc_enabled",
    "want_page_poisoning",
    "init_on_free",
    "dpm_suspend_start",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    names: u64,
    count: u64,
    token_table: u64,
    token_index: u64,
    offsets: u64,
    origin: Origin,
}

pub(super) fn table(note: &Note) -> Result<Table, FreeListError> {
    Ok(Table {
        names: note.get(Key::SymbolNames)?,
        count: note.get(Key::SymbolCount)?,
        token_table: note.get(Key::TokenTable)?,
        token_index: note.get(Key::TokenIndex)?,
        offsets: note.get(Key::SymbolOffsets)?,
        origin: Origin::of(note)?,
    })
}

/// The addresses of the required symbols that were found.
#[derive(Clone, Debug)]
pub(super) struct Symbols {
    addresses: [ArrayVec<u64, 2>; NAMES.len()],
}

impl Symbols {
    /// The address of a symbol that must occur exactly once.
    pub(super) fn address(&self, symbol: Symbol) -> Result<u64, FreeListError> {
        match self.addresses[symbol as usize][..] {
            [address] => Ok(address),
            _ => Err(FreeListError::NoSymbol(NAMES[symbol as usize])),
        }
    }

    /// The address of a symbol that may be absent.
    pub(super) fn optional(&self, symbol: Symbol) -> Result<Option<u64>, FreeListError> {
        if self.addresses[symbol as usize].is_empty() {
            return Ok(None);
        }
        self.address(symbol).map(Some)
    }

    /// Whether the symbol table agrees with a note.
    pub(super) fn fit(&self, note: &Note) -> Result<bool, FreeListError> {
        Ok(
            self.address(Symbol::TextStart)? == note.get(Key::TextStart)?
                && self.address(Symbol::SwapperPgDir)? == note.get(Key::SwapperPgDir)?,
        )
    }
}

/// Finds all required symbols in the table that a note describes, and checks that both
/// agree.
pub(super) fn find<A: AddressSpace>(
    kernel: &mut Kernel<'_, A>,
    note: &Note,
) -> Result<Symbols, FreeListError> {
    let table = table(note)?;
    let tokens = Tokens::read(kernel, table)?;
    let count = u32::from_le_bytes(Constants::new(table.count).number(kernel)?);
    if count > MOST_SYMBOLS {
        return Err(FreeListError::Symbols(table.count));
    }
    let addresses = table.origin.addresses(kernel, table.offsets)?;
    let mut symbols = Symbols {
        addresses: [const { ArrayVec::new_const() }; NAMES.len()],
    };
    let mut names = Constants::new(table.names);
    for number in 0..u64::from(count) {
        let Some(symbol) = tokens.next_name(kernel, &mut names, table)? else {
            continue;
        };
        let address = addresses.get(kernel, number)?;
        if !kernel.is_image(address) {
            return Err(FreeListError::Misfit(table.offsets));
        }
        // Two addresses are enough to detect a duplicate, so more are not stored.
        let _ = symbols.addresses[symbol].try_push(address);
    }
    if !symbols.fit(note)? {
        return Err(FreeListError::Misfit(table.offsets));
    }
    Ok(symbols)
}

/// The texts of the tokens.
struct Tokens {
    texts: ArrayVec<u8, MOST_TOKEN_BYTES>,
    /// The start of each token in `texts`; a zero byte ends it.
    starts: [u16; TOKENS],
    /// For each token, the required names that may begin with it. Most names are skipped
    /// after their first token.
    begin: [Names; TOKENS],
}

/// A set of required names: bit `i` stands for name `i`.
type Names = u16;
const ALL: Names = !0 >> (Names::BITS as usize - NAMES.len());

impl Tokens {
    fn read<A: AddressSpace>(
        kernel: &mut Kernel<'_, A>,
        table: Table,
    ) -> Result<Self, FreeListError> {
        let mut tokens = Tokens {
            texts: ArrayVec::new(),
            starts: [0; TOKENS],
            begin: [0; TOKENS],
        };
        let mut index = Constants::new(table.token_index);
        for start in &mut tokens.starts {
            *start = u16::from_le_bytes(index.number(kernel)?);
        }
        // The text of the last token starts last, so it ends the texts.
        let mut texts = Constants::new(table.token_table);
        let last = tokens.starts[TOKENS - 1];
        loop {
            let byte = texts.byte(kernel)?;
            let at = tokens.texts.len();
            tokens
                .texts
                .try_push(byte)
                .map_err(|_| FreeListError::Symbols(table.token_table))?;
            if byte == 0 && at >= last.into() {
                break;
            }
        }
        for number in 0..TOKENS {
            let text = tokens.text(number, table)?;
            tokens.begin[number] = Prefix::new().after(text).left;
        }
        Ok(tokens)
    }

    fn text(&self, number: usize, table: Table) -> Result<&[u8], FreeListError> {
        self.texts
            .get(usize::from(self.starts[number])..)
            .and_then(|rest| rest.split(|byte| *byte == 0).next())
            .ok_or(FreeListError::Symbols(table.token_table))
    }

    /// Reads the next name. Returns its number if it is a required one.
    fn next_name<'a, A: AddressSpace>(
        &self,
        kernel: &mut Kernel<'a, A>,
        names: &mut Constants<'a>,
        table: Table,
    ) -> Result<Option<usize>, FreeListError> {
        let mut length = u64::from(names.byte(kernel)?);
        if length & 0x80 != 0 {
            length = length & 0x7f | u64::from(names.byte(kernel)?) << 7;
        }
        let mut prefix = Prefix::new();
        while length > 0 {
            let token = usize::from(names.byte(kernel)?);
            length -= 1;
            if prefix.is_new() && self.begin[token] == 0 {
                prefix.left = 0;
            } else {
                prefix = prefix.after(self.text(token, table)?);
            }
            if prefix.left == 0 {
                names.skip(length);
                return Ok(None);
            }
        }
        Ok(prefix.whole())
    }
}

/// The start of a name, including its type.
#[derive(Clone, Copy)]
struct Prefix {
    length: usize,
    /// The required names that start like this.
    left: Names,
}

impl Prefix {
    fn new() -> Self {
        Prefix {
            length: 0,
            left: ALL,
        }
    }

    fn is_new(self) -> bool {
        self.length == 0
    }

    fn after(mut self, text: &[u8]) -> Self {
        for byte in text {
            if let Some(at) = self.length.checked_sub(1) {
                for (number, name) in NAMES.iter().enumerate() {
                    if name.as_bytes().get(at) != Some(byte) {
                        self.left &= !(1 << number);
                    }
                }
            }
            self.length += 1;
            if self.left == 0 {
                break;
            }
        }
        self
    }

    /// The number of the required name that equals this whole name.
    fn whole(self) -> Option<usize> {
        let length = self.length.checked_sub(1)?;
        (0..NAMES.len())
            .find(|number| self.left >> number & 1 == 1 && NAMES[*number].len() == length)
    }
}
