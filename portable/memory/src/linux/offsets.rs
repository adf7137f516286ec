//! The variants of the kernel's symbol table. Linux stores each symbol's address as a
//! 32-bit offset, whose origin depends on the version. A new layout needs a row in
//! [`VARIANTS`], and a test with a kernel that has it (`portable/memory/tests/dumps.rs`).

use core::ops::RangeInclusive;

use super::address_space::AddressSpace;
use super::error::FreeListError;
use super::kernel::{Constants, Kernel};
use super::note::{Key, Note};

/// The major and minor versions with a known layout: from the first one in `VARIANTS`
/// to the newest dump in `portable/memory/tests/dumps.rs`. A later version may work as
/// well; if not, all of its pages count as in use.
pub const KNOWN_VERSIONS: RangeInclusive<(u32, u32)> = (6, 0)..=(7, 2);

/// A variant: the criterion by which it is recognised, and its origin of offsets.
struct Variant {
    /// A key that this variant's notes have, and those of the rows below do not.
    named: Option<Key>,
    counts_from: CountsFrom,
}

#[derive(Clone, Copy)]
enum CountsFrom {
    /// A common base; the key gives its address. Offsets are unsigned.
    Base(Key),
    /// The address of the offset itself. Offsets are signed.
    Itself,
}

/// A note belongs to the first row whose key it has. The check of the table's addresses
/// against the note's verifies this choice.
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

/// The origin of one kernel's offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The base that is stored at this address.
    BaseAt(u64),
    /// Each offset's own address.
    Itself,
}

impl Origin {
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

    /// The addresses for the offsets at `offsets`.
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

pub(super) struct Addresses {
    offsets: u64,
    /// The common base, if there is one.
    base: Option<u64>,
}

impl Addresses {
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
