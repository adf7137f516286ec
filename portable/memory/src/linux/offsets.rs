//! The variants of the kernel's table of symbols. Linux writes each symbol's
//! address as an offset of 32 bits; what the offset counts from depends on the
//! version. Another layout is a row of [`VARIANTS`], and a test over a kernel
//! that has it (`portable/memory/tests/dumps.rs`).

use core::ops::RangeInclusive;

use super::address_space::AddressSpace;
use super::error::FreeListError;
use super::kernel::{Constants, Kernel};
use super::note::{Key, Note};

/// The versions, major and minor, of which the layout is known: from the first that
/// [`VARIANTS`] has to the newest that `portable/memory/tests/dumps.rs` has a dump of. A later
/// one may be read just as well; if not, all of its pages count as in use.
pub const KNOWN_VERSIONS: RangeInclusive<(u32, u32)> = (6, 0)..=(7, 2);

/// What tells one variant from the others.
struct Variant {
    /// A key that its notes have, and those in the rows below have not.
    named: Option<Key>,
    counts_from: CountsFrom,
}

/// What offsets count from.
#[derive(Clone, Copy)]
enum CountsFrom {
    /// A base that all have in common, upwards only; it stands where the key
    /// says.
    Base(Key),
    /// The place of the offset itself, in both directions.
    Itself,
}

/// A note is of the first row that it has the key of. That this is the right
/// one shows when the table knows what else the note names where the note says.
const VARIANTS: [Variant; 2] = [
    // Linux 6.0 to 6.19.
    Variant {
        named: Some(Key::SymbolBase),
        counts_from: CountsFrom::Base(Key::SymbolBase),
    },
    // Since Linux 7.0.
    Variant {
        named: None,
        counts_from: CountsFrom::Itself,
    },
];

/// What the offsets of one kernel count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The base that stands at an address.
    BaseAt(u64),
    /// Each from its own place.
    Itself,
}

impl Origin {
    /// What they count from, as a note tells.
    pub(super) fn of(note: &Note) -> Result<Self, FreeListError> {
        let variant = VARIANTS
            .iter()
            .find(|variant| variant.named.is_none_or(|key| note.has(key)));
        match variant.map(|variant| variant.counts_from) {
            Some(CountsFrom::Base(key)) => note.get(key).map(Origin::BaseAt),
            Some(CountsFrom::Itself) => Ok(Origin::Itself),
            None => Err(FreeListError::Missing(Key::SymbolBase.name())),
        }
    }

    /// The addresses that the offsets at `offsets` stand for.
    pub(super) fn addresses<A: AddressSpace>(
        self,
        kernel: &mut Kernel<'_, A>,
        offsets: u64,
    ) -> Result<Addresses, FreeListError> {
        let base = match self {
            Origin::BaseAt(at) => Some(u64::from_le_bytes(Constants::new(at).number(kernel)?)),
            Origin::Itself => None,
        };
        Ok(Addresses { offsets, base })
    }
}

/// The addresses of a kernel's symbols.
pub(super) struct Addresses {
    offsets: u64,
    /// What all offsets count from, if not from themselves.
    base: Option<u64>,
}

impl Addresses {
    /// That of the symbol with a number.
    pub(super) fn get<A: AddressSpace>(
        &self,
        kernel: &mut Kernel<'_, A>,
        number: u64,
    ) -> Result<u64, FreeListError> {
        let at = self.offsets.wrapping_add(4 * number);
        let offset = Constants::new(at).number(kernel)?;
        Ok(match self.base {
            Some(base) => base.wrapping_add(u32::from_le_bytes(offset).into()),
            None => at.wrapping_add_signed(i32::from_le_bytes(offset).into()),
        })
    }
}
