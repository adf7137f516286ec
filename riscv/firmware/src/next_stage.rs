//! The next stage: what the previous one left for it in memory, and the device tree
//! that it is given.

use poorwill_devicetree::{FixupError, Fixups, fixup};
use poorwill_domain::{Domain, FwDynamic};
use poorwill_hart::Resume;
use poorwill_log::{LogText, TEXT_BYTES, ToldLog};
use poorwill_memory::PhysRange;
use poorwill_sleep::cut::ToldStatus;
use poorwill_sleep::{ColdBoot, Report, Startup};
use thiserror::Error;

use crate::platform::{Platform, console, entropy, pmp};
use crate::report;

/// What stands in the log's place until that is known.
static NO_LOG: LogText = [0; TEXT_BYTES];

/// Why the next stage cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NextStageError {
    /// The next stage does not lie in the OS's memory, nor in its flash.
    #[error("the next stage at {0:#x} is in neither OS memory nor flash")]
    Address(u64),
    /// The device tree has no place to grow in.
    #[error(
        "the device tree has no room to grow where it is, and no 2 MiB of memory are free for it"
    )]
    NoPlace,
    /// The device tree cannot be handed on.
    #[error(transparent)]
    Fixup(#[from] FixupError),
}

/// Fills `into` with what memory holds from `address` on.
///
/// # Safety
///
/// Reading there has no side effects, and nothing writes there meanwhile.
pub(crate) unsafe fn load(address: u64, into: &mut [u8]) {
    let from = core::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: as the caller says; the buffer is an object of its own.
    unsafe { from.copy_to(into.as_mut_ptr(), into.len()) }
}

/// The bytes of the device tree.
///
/// # Safety
///
/// The blob lies in memory, and nothing else reads or writes it while the slice is used.
pub(crate) unsafe fn tree(blob: PhysRange) -> &'static mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(blob.start as usize);
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts_mut(start, blob.length() as usize) }
}

/// Makes the device tree ready for the next stage, and tells it why the machine boots
/// cold, with room for what is told of cuts where the machine has a power-fail line; returns where it starts, and with what.
///
/// # Errors
///
/// [`NextStageError::Address`], [`NextStageError::Fixup`].
///
/// # Safety
///
/// The previous stage left `stage`, nothing runs in the OS's memory yet, and
/// what [`tree`] gave is no longer in use.
pub(crate) unsafe fn prepare(
    stage: &FwDynamic,
    platform: &Platform,
    domain: &Domain,
    reason: ColdBoot,
    has_line: bool,
) -> Result<Resume, NextStageError> {
    let entry = domain.entry();
    let entry = entry.map_err(|_| NextStageError::Address(stage.address))?;
    let place = domain.next_stage.handed_on.ok_or(NextStageError::NoPlace)?;
    let start = core::ptr::with_exposed_provenance_mut::<u8>(place.start as usize);
    // SAFETY: memory that is the OS's, and thus nobody's before it starts; what the previous
    // stage has left for the OS lies elsewhere, but for the blob itself.
    let buffer = unsafe { core::slice::from_raw_parts_mut(start, place.length() as usize) };
    if place.start != stage.tree.start {
        let blob = &mut buffer[..stage.tree.length() as usize];
        // SAFETY: the blob was read from there, and the place does not overlap it.
        unsafe { load(stage.tree.start, blob) };
    }
    let text = Startup::Cold(&reason).text(pmp::protection());
    let generation_id = platform.generation_id.as_ref().map(|id| {
        id.renew();
        id.description()
    });
    let fixups = Fixups {
        firmware: &platform.firmware,
        flash: platform.vault.as_slice(),
        seed: entropy::os_seed(),
        generation_id,
        report: &text,
        log: &NO_LOG,
        cut: has_line.then_some(&ToldStatus::NOTHING),
    };
    let placed = fixup(buffer, &fixups)?;
    report::remember(Report {
        address: place.start + placed.report as u64,
        text,
    });
    report::remember_cut_status(
        (placed.cut).map(|offset| ToldStatus::at(place.start + offset as u64)),
    );
    let log_text = buffer[placed.log..].first_chunk_mut::<TEXT_BYTES>();
    let address = place.start + placed.log as u64;
    report::remember_log(
        log_text.and_then(|text| console::with_log(|log| ToldLog::write(log, address, text))),
    );
    Ok(Resume {
        address: entry.get(),
        argument: place.start,
    })
}
