//! Shows which images another firmware would still wake, before an update.

use core::fmt::{self, Write};

use poorwill_image::{Header, STATE_PAGES, read_state};
use poorwill_manifest::{Forecast, Manifest, State, read};
use poorwill_medium::Medium;
use poorwill_memory::{Page, to_usize};
use poorwill_store::{RecordError, SlotId, SlotState, SlotStatus};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{read as read_some, retry_on_intr};

use crate::area::area_of;
use crate::device::{Access, BlockDevice};
use crate::disks::Found;
use crate::error::Error;
use crate::places::Places;

/// Reads the manifest of a firmware file.
pub(crate) fn manifest(file: &str) -> Result<Manifest, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| open(file, flags, Mode::empty()));
    let opened = opened.map_err(Error::Firmware)?;
    let found = read(|into| retry_on_intr(|| read_some(&opened, &mut *into)));
    found.map_err(Error::Manifest)
}

/// Shows whether `firmware` would wake the images of an area. Returns whether it accepts all of
/// them.
pub(crate) fn foretell(
    firmware: &Manifest,
    found: &Found,
    places: &Places<'_>,
    out: &mut dyn Write,
) -> Result<bool, Error> {
    let mut device = BlockDevice::open(places, &found.node, Access::Read)?;
    let mut scratch = Page::ZERO;
    let mut area = area_of(&mut device, &mut scratch)?;
    let mut takes_all = true;
    if let Err(obstacle) = firmware.check_configuration(area.configuration()) {
        takes_all = false;
        writeln!(out, "              {obstacle}")?;
    }
    let slots = *area.slots();
    for (id, status) in SlotId::BOTH.into_iter().zip(slots) {
        if !may_wake(&status) {
            continue;
        }
        let forecast = match firmware.check_slot(&status) {
            Forecast::Wakes => of_image(firmware, &mut area.slot(id)?)?,
            other => other,
        };
        takes_all &= forecast == Forecast::Wakes;
        writeln!(out, "slot {id}       {}", Told(forecast))?;
    }
    Ok(takes_all)
}

/// Whether a slot has an image that may wake. A slot that cannot be read counts as one.
fn may_wake(status: &SlotStatus) -> bool {
    match status {
        SlotStatus::New => false,
        SlotStatus::Record(record) => {
            matches!(record.state, SlotState::Committed | SlotState::Snapshot(_))
        }
        SlotStatus::Unusable(error) => matches!(error, RecordError::Version { .. }),
    }
}

fn of_image<M: Medium>(firmware: &Manifest, slot: &mut M) -> Result<Forecast, Error> {
    let mut page = [Page::ZERO];
    slot.read(0, &mut page)?;
    let header = match Header::parse(&page[0]) {
        Ok(header) => header,
        Err(error) => return Ok(firmware.check_image(Err(&error), State::Unreadable)),
    };
    let mut room = [Page::ZERO; to_usize(STATE_PAGES)];
    // The key is in flash, which Linux cannot reach.
    let sections = read_state(slot, &header, &mut room);
    let state = match (header.seal, &sections) {
        (Some(_), _) => State::Sealed,
        (None, Ok(sections)) => State::Sections(sections),
        (None, Err(_)) => State::Unreadable,
    };
    Ok(firmware.check_image(Ok(&header), state))
}

/// A forecast as text.
struct Told(Forecast);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Forecast::Wakes => f.write_str("wakes under that firmware"),
            Forecast::Refused(obstacle) => {
                write!(f, "does NOT wake under that firmware: {obstacle}")
            }
            Forecast::Unknown(gap) => write!(f, "not known under that firmware: {gap}"),
        }
    }
}
