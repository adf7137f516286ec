//! The next stage: its files in memory from the previous stage, and its device tree.

use arrayvec::ArrayVec;
use poorwill_devicetree::{FixupError, Fixups, Limits, fixup};
use poorwill_domain::MAX_DOMAIN_HARTS;
use poorwill_log::{TEXT_BYTES, ToldLog};
use poorwill_memory::{EntryPoint, PhysRange};
use poorwill_sleep::cut::ToldStatus;
use poorwill_sleep::{ColdBoot, Report, Startup};
use thiserror::Error;

use crate::domain::{LiveDomain, pmp, report};
use crate::platform::{Platform, console, entropy, loaded};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NextStageError {
    #[error("the next stage at {0:#x} is in neither OS memory nor flash")]
    Address(u64),
    #[error(
        "the device tree has no room to grow in place, and 2 MiB of free memory were not found for it"
    )]
    NoPlace,
    #[error(transparent)]
    Fixup(#[from] FixupError),
}

/// Prepares the device tree for the next stage, with the reason for the cold boot. On a machine
/// with a power-fail line it reserves the cut-status property. Returns entry point and argument.
///
/// # Errors
///
/// [`NextStageError::Address`], [`NextStageError::Fixup`].
///
/// # Safety
///
/// The previous stage left the domain's next stage, nothing runs in its memory yet, and no slice of
/// [`loaded::tree`] is in use.
pub(crate) unsafe fn prepare(
    platform: &Platform,
    domain: &LiveDomain,
    reason: ColdBoot,
    has_line: bool,
) -> Result<EntryPoint, NextStageError> {
    let entry = domain.entry();
    let entry = entry.map_err(|_| NextStageError::Address(domain.next_stage.address))?;
    let Some(tree) = domain.next_stage.tree else {
        return Ok(EntryPoint {
            address: entry.get(),
            argument: domain.next_stage.argument,
        });
    };
    let place = tree.handed_on.ok_or(NextStageError::NoPlace)?;
    let start = core::ptr::with_exposed_provenance_mut::<u8>(place.start as usize);
    // SAFETY: the OS's memory, which is unused before the OS starts. The previous stage's other
    // files lie elsewhere.
    let buffer = unsafe { core::slice::from_raw_parts_mut(start, place.length() as usize) };
    if place.start != tree.blob.start {
        let blob = &mut buffer[..tree.blob.length() as usize];
        // SAFETY: the blob was read there before, and `place` does not overlap it.
        unsafe { loaded::load(tree.blob.start, blob) };
    }
    let text = Startup::Cold(&reason).text(pmp::protection());
    let generation_id = platform.generation_id.as_ref().map(|id| {
        id.renew();
        id.description()
    });
    let own = platform.firmware.iter().copied();
    let own: ArrayVec<PhysRange, 2> = own.filter(|own| domain.memory.is_installed(own)).collect();
    let harts: ArrayVec<u64, MAX_DOMAIN_HARTS> = domain.harts.ids().collect();
    // The owner of the console reads the clock by mediation.
    let clock = platform.clock_page.filter(|_| domain.has_console);
    let devices = [&domain.devices[..], &domain.registers, clock.as_slice()];
    let fixups = Fixups {
        firmware: &own,
        flash: platform.vault.as_slice(),
        seed: entropy::os_seed(),
        generation_id,
        report: &text,
        // The log is written there later.
        log: &[0; TEXT_BYTES],
        cut: has_line.then_some(&ToldStatus::NOTHING),
        domain: (!domain.name.is_empty()).then_some(&domain.name),
        limits: domain.foreign.as_ref().map(|foreign| Limits {
            harts: &harts,
            devices: &devices,
            foreign,
        }),
    };
    let placed = fixup(buffer, &fixups)?;
    let boot = Report {
        address: place.start + placed.report as u64,
        text,
    };
    let cut = (placed.cut).map(|offset| ToldStatus::at(place.start + offset as u64));
    let log_text = buffer[placed.log..].first_chunk_mut::<TEXT_BYTES>();
    let address = place.start + placed.log as u64;
    let write = |text| console::with_log(|log| ToldLog::write(log, &domain.name, address, text));
    let log = log_text.and_then(write);
    report::remember(domain, boot, log, cut);
    Ok(EntryPoint {
        address: entry.get(),
        argument: place.start,
    })
}
