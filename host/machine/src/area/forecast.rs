use poorwill_image::{Header, OpenError, Trust, Workspace, inspect};
use poorwill_manifest::{Forecast, Gap, Manifest, State};
use poorwill_medium::Medium;
use poorwill_store::SlotStatus;

use super::room::{expected, work_pages};

/// The facts that decide whether a firmware would wake a slot's image.
pub(super) struct Found<'s> {
    pub(super) status: &'s SlotStatus,
    /// The header of its image; `None`: its record cannot be read.
    pub(super) header: Option<&'s Result<Header, OpenError>>,
    /// The images that the machine trusts; `None`: its flash was not given.
    pub(super) trust: Option<&'s Trust<'s>>,
    /// The version of the flash's vault.
    pub(super) vault_version: u16,
}

/// Whether `firmware` would wake the image in `slot`.
pub(super) fn forecast<M: Medium>(
    firmware: &Manifest,
    slot: &mut M,
    found: &Found<'_>,
) -> Forecast {
    let (header, record) = (found.header, firmware.check_slot(found.status));
    match (header, record) {
        (Some(Ok(header)), Forecast::Wakes) => of_image(firmware, slot, header, found),
        (Some(Err(OpenError::Header(error))), Forecast::Wakes) => {
            firmware.check_image(Err(error), State::Unreadable)
        }
        (_, Forecast::Wakes) => Forecast::Unknown(Gap::Unreadable),
        (_, other) => other,
    }
}

fn of_image<M: Medium>(
    firmware: &Manifest,
    slot: &mut M,
    header: &Header,
    found: &Found<'_>,
) -> Forecast {
    let sealed = |firmware: &Manifest| firmware.check_image(Ok(header), State::Sealed);
    let key = match (&header.seal, found.trust) {
        (None, _) => None,
        (Some(_), None) => return sealed(firmware),
        (Some(mark), Some(trust)) => {
            if let Err(obstacle) = firmware.check_vault(found.vault_version) {
                return Forecast::Refused(obstacle);
            }
            match trust.key_for(Some(mark)) {
                Ok(key) => key,
                Err(_) => return sealed(firmware),
            }
        }
    };
    let mut pages = work_pages(header.os_pages, slot);
    let room = Workspace::new(&mut pages, header.os_pages);
    let checked = room.map(|room| inspect(slot, expected(header), key, room));
    match checked {
        Ok(Ok(checked)) => match checked.state() {
            Ok(sections) => firmware.check_image(Ok(header), State::Sections(&sections)),
            Err(_) => firmware.check_image(Ok(header), State::Unreadable),
        },
        Ok(Err(_)) | Err(_) => firmware.check_image(Ok(header), State::Unreadable),
    }
}
