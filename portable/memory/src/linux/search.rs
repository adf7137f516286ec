//! Finds the kernel's own note.

use super::address_space::AddressSpace;
use super::error::{FreeListError, MOST_NOTES};
use super::kernel::Kernel;
use super::note::{Note, text_bytes};
use super::symbols::{self, Symbol, Symbols};

/// The address at which the search starts, if there is memory. Linux allocates its first pages
/// above 4 GiB, and keeps lower memory for devices with 32 address bits.
const SEARCHED_FIRST: u64 = 1 << 32;

/// The kernel's own note, and the relevant symbols.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) note: Note,
    pub(super) symbols: Symbols,
}

pub(super) fn of_kernel<A: AddressSpace>(
    kernel: &mut Kernel<'_, A>,
) -> Result<Known, FreeListError> {
    let memory = kernel.memory;
    let mut found = 0;
    let mut doubt = FreeListError::NoNote;
    for page in memory.iter_from(SEARCHED_FIRST) {
        kernel.go_on()?;
        if text_bytes(memory.page(page)).is_none() {
            continue;
        }
        found += 1;
        if found > MOST_NOTES {
            return Err(FreeListError::TooManyNotes);
        }
        match follow(kernel, page.address()) {
            Ok(known) => return Ok(known),
            Err(FreeListError::Ended) => return Err(FreeListError::Ended),
            Err(error) if found == 1 => doubt = error,
            Err(_) => doubt = FreeListError::NotTheKernels,
        }
    }
    Err(doubt)
}

/// Follows a note, which any program may have written, to the kernel's own.
fn follow<A: AddressSpace>(kernel: &mut Kernel<'_, A>, hint: u64) -> Result<Known, FreeListError> {
    let note = Note::read(kernel.memory, hint)?;
    let symbols = symbols::find(kernel, &note)?;
    let pointer = kernel.word(symbols.address(Symbol::Note)?)?;
    let own = kernel.physical(pointer)?;
    // Usually both are the same note. If not, the kernel's own must lead to the same
    // table.
    let own = Note::read(kernel.memory, own)?;
    if symbols::table(&own)? != symbols::table(&note)? || !symbols.fit(&own)? {
        return Err(FreeListError::NotTheKernels);
    }
    Ok(Known { note: own, symbols })
}
