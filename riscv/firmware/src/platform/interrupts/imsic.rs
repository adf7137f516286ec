//! IMSIC interrupt files, through their CSRs (AIA, chapter 3).

use arrayvec::ArrayVec;
use poorwill_image::{Record, StateError, StateWriter};

use crate::arch::csr;

/// Tag of the IMSIC's record in an image.
pub(super) const TAG: u32 = u32::from_le_bytes(*b"IMSI");
/// Version of its payload: eidelivery, eithreshold, then for each 64 identities
/// the pending and the enabled ones, all 64 bits wide.
const VERSION: u16 = 1;

/// Most words that a payload can have: 2047 identities.
const MAX_WORDS: usize = 2 + 2 * 32;

/// The interrupt identity of machine-mode IPIs.
pub(super) const IPI_IDENTITY: u32 = 1;

/// Indirect registers of an interrupt file (AIA, section 3.8).
mod register {
    pub(super) const EIDELIVERY: u64 = 0x70;
    pub(super) const EITHRESHOLD: u64 = 0x72;
    /// Pending bits; on RV64 only even numbers exist, 64 identities each.
    pub(super) const EIP0: u64 = 0x80;
    /// Enable bits, likewise.
    pub(super) const EIE0: u64 = 0xc0;
}

fn read(register: u64) -> u64 {
    // SAFETY: siselect only chooses what sireg means, and the OS's own value
    // of it is saved and put back with its other CSRs.
    unsafe { csr::write::<{ csr::SISELECT }>(register) };
    csr::read::<{ csr::SIREG }>()
}

fn write(register: u64, value: u64) {
    // SAFETY: as in `read`; the file is the OS's.
    unsafe {
        csr::write::<{ csr::SISELECT }>(register);
        csr::write::<{ csr::SIREG }>(value);
    }
}

/// The registers that keep the file's state, but for delivery, which comes
/// last so that nothing is delivered half restored.
fn registers(identities: u32) -> impl Iterator<Item = u64> {
    let groups = u64::from(identities / 64 + 1);
    let bits =
        (0..groups).flat_map(|group| [register::EIP0 + 2 * group, register::EIE0 + 2 * group]);
    core::iter::once(register::EITHRESHOLD)
        .chain(bits)
        .chain([register::EIDELIVERY])
}

/// Writes down the calling hart's S-level file. The other harts are stopped;
/// an OS sets their files up again as it starts them.
pub(super) fn save(identities: u32, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let selected = csr::read::<{ csr::SISELECT }>();
    let words: ArrayVec<u64, MAX_WORDS> = registers(identities).map(read).collect();
    // SAFETY: puts the OS's own value back.
    unsafe { csr::write::<{ csr::SISELECT }>(selected) };
    into.record(TAG, VERSION, &words[..])
}

/// An S-level interrupt file, read from an image.
#[derive(Clone, Debug)]
pub(crate) struct FileState {
    identities: u32,
    words: ArrayVec<u64, MAX_WORDS>,
}

impl FileState {
    /// The file of an image's record, if it fits this machine.
    pub(super) fn read(identities: u32, record: &Record<'_>) -> Result<Self, StateError> {
        let words = super::words::<u64>(record, VERSION, registers(identities).count())?;
        Ok(FileState {
            identities,
            words: words.iter().copied().collect(),
        })
    }

    /// Puts it back into the calling hart's file.
    pub(crate) fn restore(&self) {
        for (register, word) in registers(self.identities).zip(&self.words) {
            write(register, *word);
        }
    }
}

/// Opens the calling hart's machine-mode file for IPIs.
pub(super) fn start_machine_file() {
    let write = |register, value| {
        // SAFETY: the machine-mode file is ours alone.
        unsafe {
            csr::write::<{ csr::MISELECT }>(register);
            csr::write::<{ csr::MIREG }>(value);
        }
    };
    write(register::EITHRESHOLD, 0);
    write(register::EIE0, 1 << IPI_IDENTITY);
    write(register::EIDELIVERY, 1);
}

/// Claims everything that is pending in the machine-mode file.
pub(super) fn take_machine_interrupts() {
    while csr::read::<{ csr::MTOPEI }>() != 0 {
        // SAFETY: writing mtopei claims the interrupt that it names.
        unsafe { csr::write::<{ csr::MTOPEI }>(0) };
    }
}
