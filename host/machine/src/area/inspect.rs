use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use indicatif::ProgressBar;
use poorwill_image::{Header, OpenError, SealingKey, Trust, Workspace, verify};
use poorwill_manifest::Manifest;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_store::{
    Area, AreaLocation, Configuration, ConfigurationError, Failure, RecordError, RecordFormat,
    SlotId, SlotRecord, SlotState, SlotStatus as Record, StoreError,
};
use poorwill_vault::OLDEST_VAULT_VERSION;

use super::find::{AreaError, find};
use super::forecast::{Found, forecast};
use super::report::{
    AreaReport, ConfigurationReport, ImageReport, PartReport, SlotReport, SlotStatus, Verdict,
};
use super::room::{expected, work_pages};
use crate::disk::{FileMedium, look_at};
use crate::flash::Flash;
use crate::interrupt;

/// Pages of a read during verification: 4 MiB.
const SCRATCH_PAGES: usize = 1024;

/// Optional checks of a disk's sleep areas.
#[derive(Debug, Default)]
pub struct Questions<'q> {
    /// Verify each byte of the images that may wake; progress is shown on this bar.
    pub verify: Option<&'q ProgressBar>,
    /// Report whether the machine with this flash accepts the images. Sealed images need it for
    /// their verification.
    pub flash: Option<&'q mut Flash>,
    /// Report whether the firmware with this manifest would wake the images.
    pub firmware: Option<&'q Manifest>,
}

/// Reads the sleep areas of `disk`, without writing.
///
/// # Errors
///
/// [`AreaError`]; a fault in a slot is part of the report instead.
pub fn inspect(disk: &Path, mut questions: Questions<'_>) -> Result<Vec<AreaReport>, AreaError> {
    let (file, kind) = look_at(disk)?;
    let mut medium = FileMedium::new(file, kind.bytes);
    let mut scratch = vec![Page::ZERO; SCRATCH_PAGES];
    let areas = find(disk, &mut medium, kind.block_bytes, &mut scratch)?;
    let mut reports = Vec::new();
    for location in &areas {
        let report = inspect_area(&mut medium, location, &mut scratch, &mut questions);
        interrupt::check()?;
        reports.push(report.map_err(|reason| AreaError::Area {
            file: disk.to_owned(),
            partition: location.partition,
            reason,
        })?);
    }
    Ok(reports)
}

/// The image that the machine with this disk and flash finds at its next power-on, to wake it or to
/// refuse it. `None`: there is no image, or it cannot be read.
#[must_use]
pub fn find_sleeping(disk: &Path, flash: Option<&mut Flash>) -> Option<SlotReport> {
    let questions = Questions {
        flash,
        ..Questions::default()
    };
    let areas = inspect(disk, questions).ok()?;
    areas
        .into_iter()
        .flat_map(|area| area.slots)
        .find(|slot| slot.wakes || slot.refused.is_some())
}

fn inspect_area(
    medium: &mut FileMedium,
    location: &AreaLocation,
    scratch: &mut [Page],
    questions: &mut Questions<'_>,
) -> Result<AreaReport, StoreError> {
    let vault_version = questions.flash.as_deref().map(Flash::vault_version);
    let (trust, counter) = match questions.flash.as_deref_mut().map(Flash::judge) {
        Some((trust, counter)) => (Some(trust), counter),
        None => (None, None),
    };
    let window = Window::new(medium, location.start, location.length)?;
    let mut record_page = Page::ZERO;
    let mut area = Area::open(window, &mut record_page, counter, RecordFormat::Image)?;
    let configuration = describe_configuration(area.configuration(), questions.firmware);
    let look = Look {
        trust,
        vault_version: vault_version.unwrap_or(OLDEST_VAULT_VERSION),
        verify: questions.verify,
        firmware: questions.firmware,
    };
    let slots = SlotId::BOTH.map(|id| look.slot(&mut area, id, scratch));
    let slots = slots.into_iter().collect::<Result<_, _>>()?;
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

/// The optional checks, with the data that they need for each slot.
struct Look<'q> {
    trust: Option<Trust<'q>>,
    vault_version: u16,
    verify: Option<&'q ProgressBar>,
    firmware: Option<&'q Manifest>,
}

impl Look<'_> {
    /// Examines a slot. By the records, its image wakes if it does on the machine that writes its
    /// format.
    fn slot(
        &self,
        area: &mut Area<'_, FileMedium>,
        id: SlotId,
        scratch: &mut [Page],
    ) -> Result<SlotReport, StoreError> {
        let status = area.slots()[id.index()];
        let mut report = describe(id, &status);
        let mut header = None;
        if let Some(record) = status.record() {
            let newest = area.newest_in(record.format());
            report.wakes = newest.is_ok_and(|image| image.slot() == id);
            match record.format() {
                RecordFormat::Image => {
                    let committed = (record.header_checksum, record.may_wake());
                    let seen = self.image(&mut area.slot(id)?, committed, scratch);
                    (report.image, report.verdict) = (seen.report, seen.verdict);
                    self.refuse(&mut report, area, &seen.header);
                    header = Some(seen.header);
                }
                RecordFormat::Set => self.set(&mut report, area, (id, record), scratch)?,
            }
        }
        if let (Some(firmware), true) = (self.firmware, is_kept(&report, &status)) {
            let found = Found {
                status: &status,
                header: header.as_ref(),
                trust: self.trust.as_ref(),
                vault_version: self.vault_version,
            };
            report.forecast = Some(forecast(firmware, &mut area.slot(id)?, &found).into());
        }
        Ok(report)
    }

    /// Examines the parts of a set.
    fn set(
        &self,
        report: &mut SlotReport,
        area: &mut Area<'_, FileMedium>,
        (id, record): (SlotId, &SlotRecord),
        scratch: &mut [Page],
    ) -> Result<(), StoreError> {
        for (index, part) in record.parts().iter().enumerate() {
            let committed = (part.header_checksum, record.may_wake());
            let seen = self.image(&mut area.part(id, index)?, committed, scratch);
            report.parts.push(PartReport {
                name_hash: format!("{:016x}", part.name_hash),
                reason: part.failure.map(wake_failed),
                image_bytes: part.bytes,
                image: seen.report,
                verdict: seen.verdict,
            });
            self.refuse(report, area, &seen.header);
        }
        Ok(())
    }

    /// Examines an image, which starts where `slot` does. Its record has the header's checksum, and
    /// says whether the image may wake.
    fn image<M: Medium>(
        &self,
        slot: &mut M,
        (checksum, may_wake): (u64, bool),
        scratch: &mut [Page],
    ) -> Seen {
        let header = read_header(slot, checksum);
        // Only an image that may wake is verified: later sleeps may have overwritten parts of a
        // consumed one.
        let verdict = match (&header, self.verify) {
            (Ok(header), Some(bar)) if may_wake => Some(verify_image(
                slot,
                header,
                self.trust.as_ref(),
                scratch,
                bar,
            )),
            (Err(error), _) if may_wake => Some(Verdict::Damaged(error.to_string())),
            _ => None,
        };
        Seen {
            report: header.as_ref().ok().map(describe_image),
            header,
            verdict,
        }
    }

    /// Notes whether the machine with the given flash would refuse an image that else wakes.
    fn refuse<M: Medium>(
        &self,
        report: &mut SlotReport,
        area: &Area<'_, M>,
        header: &Result<Header, OpenError>,
    ) {
        if let (Some(trust), Ok(header), true) = (&self.trust, header, report.wakes) {
            report.refused = refusal(area, header, trust);
            report.wakes = report.refused.is_none();
        }
    }
}

/// What was found where an image should be.
struct Seen {
    header: Result<Header, OpenError>,
    report: Option<ImageReport>,
    verdict: Option<Verdict>,
}

/// Whether the forecast covers the slot: its image may wake, or its record has a version that only
/// another firmware reads.
fn is_kept(report: &SlotReport, status: &Record) -> bool {
    let is_foreign = matches!(status, Record::Unusable(RecordError::Version { .. }));
    report.wakes || report.status == SlotStatus::Snapshot || is_foreign
}

/// Why the machine with a flash would refuse an image.
fn refusal<M: Medium>(area: &Area<'_, M>, header: &Header, trust: &Trust<'_>) -> Option<String> {
    let key = trust.key_for(header.seal.as_ref()).map(drop);
    key.map_err(|error| error.to_string())
        .and_then(|()| {
            let counter = area.may_wake(header.kind, header.generation);
            counter.map_err(|error| error.to_string())
        })
        .err()
}

fn wake_failed(failure: Failure) -> String {
    format!("its wake failed: {failure}")
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
        } => (SlotStatus::Consumed, Some(wake_failed(failure))),
        SlotState::Discarded(reason) => (SlotStatus::Discarded, Some(reason.to_string())),
        SlotState::Snapshot(attempts) => (SlotStatus::Snapshot, Some(attempts.to_string())),
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

/// Reads the header in `slot`, and checks that it is the one with this checksum.
fn read_header<M: Medium>(slot: &mut M, checksum: u64) -> Result<Header, OpenError> {
    let mut page = [Page::ZERO];
    slot.read(0, &mut page)?;
    let header = Header::parse(&page[0])?;
    if header.checksum == checksum {
        Ok(header)
    } else {
        Err(OpenError::NotCommitted)
    }
}

fn describe_configuration(
    found: Result<Configuration, ConfigurationError>,
    firmware: Option<&Manifest>,
) -> ConfigurationReport {
    let checked = firmware.map(|firmware| firmware.check_configuration(found));
    ConfigurationReport {
        refused: checked.and_then(Result::err).map(|error| error.to_string()),
        ..ConfigurationReport::of(found)
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

/// Verifies each checksum of an image; a sealed image's tags need its key.
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
        let checked = poorwill_image::inspect(slot, expected(header), key, workspace)
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
