//! A hart's part of the record.

use poorwill_arch::csr;
use poorwill_hart::{Execution, HartContext, Section};
use poorwill_image::{StateSections, StateWriter};
use poorwill_memory::Page;
use poorwill_sleep::cut::{CutReason, Misfit};

use crate::entry::TrapFrame;
use crate::hart::{ThisHart, banks};

/// Writes the OS's registers on the calling hart, and the point at which the OS was stopped.
/// Returns the bytes.
///
/// # Errors
///
/// [`CutReason::HartState`], [`CutReason::NoRoom`].
pub(super) fn write(own: ThisHart, frame: &TrapFrame, into: &mut [Page]) -> Result<u64, CutReason> {
    let context = HartContext::capture(&own.access());
    let mut context = context.map_err(|_| CutReason::HartState(own.id()))?;
    context.execution = Some(Execution {
        x: frame.x.map(|register| register as u64),
        pc: frame.mepc as u64,
        status: frame.mstatus as u64,
        address_space: csr::read::<{ csr::SATP }>(),
        cycles: csr::read::<{ csr::MCYCLE }>(),
        instructions: csr::read::<{ csr::MINSTRET }>(),
    });
    let mut writer = StateWriter::new(into);
    for section in context.sections() {
        writer.section(section.tag, 0, section.version, section.bytes)?;
    }
    banks::write(&own.access(), &mut writer)?;
    writer.section(DEADLINE.0, 0, DEADLINE.1, &context.deadline.unwrap_or(NONE))?;
    Ok(writer.finish())
}

/// Owner and version of the section with the OS's timer deadline. Only machines on which machine
/// mode keeps the timer have it.
const DEADLINE: (u32, u16) = (u32::from_le_bytes(*b"DEAD"), 1);

/// The deadline in the section if the OS has set none.
const NONE: u64 = u64::MAX;

/// Maximum bytes of a part without banks: it has the longest vector registers and the largest
/// interrupt file.
const MOST_CONTEXT_BYTES: usize = 2 * size_of::<Page>();

/// Checks that `pages` pages have room for the largest state of the calling hart.
///
/// # Errors
///
/// [`CutReason::NoRoom`].
pub(super) fn check_room(own: ThisHart, pages: usize) -> Result<(), CutReason> {
    let needed = MOST_CONTEXT_BYTES + banks::most_bytes(&own.access());
    match needed <= pages * size_of::<Page>() {
        true => Ok(()),
        false => Err(CutReason::NoRoom(needed as u64)),
    }
}

/// Reads a part that was written by a hart with the calling hart's features.
///
/// # Errors
///
/// [`CutReason::Misfit`].
// The result has the caller's error type: a conversion would copy the context.
pub(super) fn read(own: ThisHart, pages: &[Page], bytes: u64) -> Result<HartContext, CutReason> {
    let mut sections = StateSections::parse(pages, bytes)?;
    let mut context = HartContext {
        deadline: sections.take_payload(DEADLINE, 0)?.copied(),
        ..HartContext::default()
    };
    let access = own.access();
    for section in sections.left() {
        if banks::is_fitting(&access, section) {
            continue;
        }
        let is_ours = context.read(Section {
            tag: section.owner,
            version: section.version,
            bytes: section.payload,
        });
        match is_ours {
            Ok(true) => {}
            Ok(false) => return Err(Misfit::Unknown(section.owner).into()),
            Err(_) => return Err(Misfit::Section(section.owner).into()),
        }
    }
    context.check(&access).map_err(|_| Misfit::Hart(own.id()))?;
    Ok(context)
}

/// Restores the banks of a part that [`read`] has accepted. The CSRs come first.
///
/// # Errors
///
/// [`Misfit`].
pub(super) fn restore_banks(own: ThisHart, pages: &[Page], bytes: u64) -> Result<(), Misfit> {
    let sections = StateSections::parse(pages, bytes)?;
    banks::restore(&own.access(), sections.left());
    Ok(())
}
