use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use indicatif::ProgressBar;
use poorwill_image::{Expected, Header, SealingKey, Trust, Workspace, verify};
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use poorwill_store::{
    Area, AreaLocation, SlotId, SlotRecord, SlotState, SlotStatus as Record, StoreError,
};

use super::find::{AreaError, find};
use super::report::{
    AreaReport, ConfigurationReport, ImageReport, SlotReport, SlotStatus, Verdict,
};
use crate::disk::{FileMedium, look_at};
use crate::flash::Flash;
use crate::interrupt;

/// Pages read at once while verifying: 4 MiB.
const SCRATCH_PAGES: usize = 1024;

/// Looks at every sleep area of `disk`, without writing. With a bar, images that
/// may wake are verified, every byte. With a flash, the reports say what the
/// machine that has it would do with the images; sealed ones can only be
/// verified then.
///
/// # Errors
///
/// [`AreaError`]. What is wrong with a slot is in the report instead.
pub fn inspect(
    disk: &Path,
    verify: Option<&ProgressBar>,
    mut flash: Option<&mut Flash>,
) -> Result<Vec<AreaReport>, AreaError> {
    let (file, kind) = look_at(disk)?;
    let mut medium = FileMedium::new(file, kind.bytes);
    let mut scratch = vec![Page::ZERO; SCRATCH_PAGES];
    let areas = find(disk, &mut medium, kind.block_bytes, &mut scratch)?;
    let mut reports = Vec::new();
    for location in &areas {
        let report = inspect_area(
            &mut medium,
            location,
            &mut scratch,
            verify,
            flash.as_deref_mut(),
        );
        interrupt::check()?;
        reports.push(report.map_err(|reason| AreaError::Area {
            file: disk.to_owned(),
            partition: location.partition,
            reason,
        })?);
    }
    Ok(reports)
}

/// The image of `disk` that the next power-on finds, of a machine with that
/// flash, if there is one that can be seen: it wakes, or is refused for good.
#[must_use]
pub fn find_sleeping(disk: &Path, flash: Option<&mut Flash>) -> Option<SlotReport> {
    let areas = inspect(disk, None, flash).ok()?;
    areas
        .into_iter()
        .flat_map(|area| area.slots)
        .find(|slot| slot.wakes || slot.refused.is_some())
}

fn inspect_area(
    medium: &mut FileMedium,
    location: &AreaLocation,
    scratch: &mut [Page],
    bar: Option<&ProgressBar>,
    flash: Option<&mut Flash>,
) -> Result<AreaReport, StoreError> {
    let (trust, guard) = match flash.map(Flash::judge) {
        Some((trust, guard)) => (Some(trust), guard),
        None => (None, None),
    };
    let window = Window::new(medium, location.start, location.length)?;
    let mut record_page = Page::ZERO;
    let mut area = Area::open(window, &mut record_page, guard)?;
    let configuration = ConfigurationReport::of(area.configuration());
    let newest = area.newest().ok().map(|image| image.slot());
    let records = *area.slots();
    let mut slots = Vec::new();
    for (id, record) in SlotId::BOTH.into_iter().zip(records) {
        let mut report = describe(id, &record);
        report.wakes = newest == Some(id);
        if let Record::Record(record) = record {
            let mut slot = area.slot(id)?;
            match read_header(&mut slot, &record) {
                Ok(header) => {
                    report.image = Some(describe_image(&header));
                    if let (Some(bar), true) = (bar, may_wake(&record)) {
                        let verdict =
                            verify_image(&mut slot, &header, trust.as_ref(), scratch, bar);
                        report.verdict = Some(verdict);
                    }
                    if let (Some(trust), true) = (&trust, report.wakes) {
                        report.refused = refusal(&area, &header, trust);
                        report.wakes = report.refused.is_none();
                    }
                }
                // An image that is gone may be overwritten; one that wakes may not.
                Err(reason) if may_wake(&record) => {
                    report.verdict = Some(Verdict::Damaged(reason));
                }
                Err(_) => {}
            }
        }
        slots.push(report);
    }
    let (partition, start, bytes) = (location.partition, location.start, location.length);
    Ok(AreaReport {
        partition,
        start,
        bytes,
        slot_bytes: area.slot_bytes(),
        configuration,
        slots,
    })
}

/// Why the machine that has a flash would not wake an image.
fn refusal<M: Medium>(area: &Area<'_, M>, header: &Header, trust: &Trust<'_>) -> Option<String> {
    let key = trust.key_for(header.seal.as_ref()).map(drop);
    key.map_err(|error| error.to_string())
        .and_then(|()| {
            let guard = area.may_wake(header.kind, header.generation);
            guard.map_err(|error| error.to_string())
        })
        .err()
}

/// Whether the image is for waking still.
fn may_wake(record: &SlotRecord) -> bool {
    matches!(record.state, SlotState::Committed | SlotState::Snapshot(_))
}

fn describe(id: SlotId, record: &Record) -> SlotReport {
    let record = match record {
        Record::New => return SlotReport::new(id.index(), SlotStatus::Empty),
        Record::Unusable(error) => {
            let mut report = SlotReport::new(id.index(), SlotStatus::Unusable);
            report.reason = Some(error.to_string());
            return report;
        }
        Record::Record(record) => record,
    };
    let (status, reason) = match record.state {
        SlotState::Committed => (SlotStatus::Committed, None),
        SlotState::Consumed { failure: None, .. } => (SlotStatus::Consumed, None),
        SlotState::Consumed {
            failure: Some(failure),
            ..
        } => (
            SlotStatus::Consumed,
            Some(format!("its wake failed: {failure}")),
        ),
        SlotState::Discarded(reason) => (SlotStatus::Discarded, Some(reason.to_string())),
        SlotState::Snapshot(standing) => (SlotStatus::Snapshot, Some(standing.to_string())),
    };
    SlotReport {
        reason,
        generation: Some(record.generation),
        image_bytes: Some(record.image_bytes),
        sleep_ms: Some(record.sleep_ms).filter(|ms| *ms != 0),
        name: Some(record.name.to_string()).filter(|name| !name.is_empty()),
        ..SlotReport::new(id.index(), status)
    }
}

/// The header of the image that `record` speaks of.
fn read_header<M: Medium>(slot: &mut M, record: &SlotRecord) -> Result<Header, String> {
    let mut page = [Page::ZERO];
    slot.read(0, &mut page).map_err(|error| error.to_string())?;
    let header = Header::parse(&page[0]).map_err(|error| error.to_string())?;
    if header.checksum == record.header_checksum {
        Ok(header)
    } else {
        Err("the image is not the one that was committed".to_owned())
    }
}

fn describe_image(header: &Header) -> ImageReport {
    let saved_at = (header.saved_at_ns != 0)
        .then(|| UNIX_EPOCH.checked_add(Duration::from_nanos(header.saved_at_ns)))
        .flatten()
        .map(|time| humantime::format_rfc3339_seconds(time).to_string());
    let identity = &header.identity;
    let aspects = [
        identity.memory,
        identity.harts,
        identity.isa,
        identity.device_tree,
    ];
    ImageReport {
        saved_at,
        memory_bytes: header.os_pages.saturating_mul(PAGE_BYTES),
        saved_bytes: header.saved_pages.saturating_mul(PAGE_BYTES),
        sealed_with: header.seal.map(|mark| mark.key.to_string()),
        machine: aspects.map(|digest| format!("{:08x}", digest >> 32)),
    }
}

/// Checks every checksum or tag of an image, if the key for it is at hand.
fn verify_image<M: Medium>(
    slot: &mut M,
    header: &Header,
    trust: Option<&Trust<'_>>,
    scratch: &mut [Page],
    bar: &ProgressBar,
) -> Verdict {
    match (&header.seal, trust) {
        (None, _) => verify_with(None, slot, header, scratch, bar),
        (Some(_), None) => Verdict::Sealed,
        (Some(mark), Some(trust)) => match trust.key_for(Some(mark)) {
            Ok(key) => verify_with(key, slot, header, scratch, bar),
            Err(error) => Verdict::OtherKey(error.to_string()),
        },
    }
}

/// Pages to work with on the image of so much memory in `slot`: too few for one that
/// speaks of more memory than a slot of that size could be for.
pub(super) fn work_pages<M: Medium>(os_pages: u64, slot: &M) -> Vec<Page> {
    let most = slot.capacity() / PAGE_BYTES + 64;
    vec![Page::ZERO; to_usize(Workspace::pages_needed(os_pages).min(most))]
}

fn verify_with<M: Medium>(
    key: Option<&SealingKey>,
    slot: &mut M,
    header: &Header,
    scratch: &mut [Page],
    bar: &ProgressBar,
) -> Verdict {
    let mut pages = work_pages(header.os_pages, slot);
    let mut check = || -> Result<(), String> {
        let workspace =
            Workspace::new(&mut pages, header.os_pages).map_err(|error| error.to_string())?;
        let expected = Expected {
            header_checksum: header.checksum,
            generation: header.generation,
            kind: header.kind,
        };
        let checked = poorwill_image::inspect(slot, expected, key, workspace)
            .map_err(|error| error.to_string())?;
        verify(slot, &checked, scratch, &mut |progress| {
            bar.set_length(progress.total_pages * PAGE_BYTES);
            bar.set_position(progress.done_pages * PAGE_BYTES);
        })
        .map_err(|error| error.to_string())
    };
    match check() {
        Ok(()) => Verdict::Whole,
        Err(reason) => Verdict::Damaged(reason),
    }
}
