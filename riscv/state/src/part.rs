//! A hart's part of the record of a cut.

use poorwill_hart::{BankAccess, Execution, HartAccess, HartContext, Section};
use poorwill_image::{StateSections, StateWriter};
use poorwill_memory::Page;
use poorwill_sleep::cut::{CutReason, Misfit};

use crate::banks;

/// Writes the OS's registers on the calling hart, and the execution at which the OS was stopped.
/// Returns the bytes.
///
/// # Errors
///
/// [`CutReason::HartState`], [`CutReason::NoRoom`].
pub fn write(
    id: u64,
    hart: &(impl HartAccess + BankAccess),
    stopped_at: Execution,
    into: &mut [Page],
) -> Result<u64, CutReason> {
    let context = HartContext::capture(hart);
    let mut context = context.map_err(|_| CutReason::HartState(id))?;
    context.execution = Some(stopped_at);
    let mut writer = StateWriter::new(into);
    for section in context.sections() {
        writer.section(section.tag, 0, section.version, section.bytes)?;
    }
    banks::write(hart, &mut writer)?;
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
pub fn check_room(hart: &impl BankAccess, pages: usize) -> Result<(), CutReason> {
    let needed = MOST_CONTEXT_BYTES + banks::most_bytes(hart);
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
pub fn read(
    id: u64,
    hart: &(impl HartAccess + BankAccess),
    pages: &[Page],
    bytes: u64,
) -> Result<HartContext, CutReason> {
    let mut sections = StateSections::parse(pages, bytes)?;
    let mut context = HartContext {
        deadline: sections.take_payload(DEADLINE, 0)?.copied(),
        ..HartContext::default()
    };
    for section in sections.left() {
        if banks::is_fitting(hart, section) {
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
    let fits = context.check(hart);
    fits.map_err(|_| Misfit::Hart(id))?;
    Ok(context)
}

/// Restores the banks of a part that [`read`] has accepted. The CSRs come first.
///
/// # Errors
///
/// [`Misfit`].
pub fn restore_banks(hart: &impl BankAccess, pages: &[Page], bytes: u64) -> Result<(), Misfit> {
    let sections = StateSections::parse(pages, bytes)?;
    banks::restore(hart, sections.left());
    Ok(())
}
