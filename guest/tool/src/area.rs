//! The sleep area that a command opens or changes.

use core::fmt::Write;

use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{Area, Configuration, ConfigurationError, RecordFormat};

use crate::complaint::complain;
use crate::device::{Access, BlockDevice};
use crate::disks::find_only;
use crate::domain::need_machine;
use crate::error::Error;
use crate::places::Places;

/// Changes the configuration of the machine's only area, and returns the new one.
pub(crate) fn change(
    places: &Places<'_>,
    complaints: &mut dyn Write,
    to: impl FnOnce(Configuration) -> Configuration,
) -> Result<Configuration, Error> {
    let mut device = open_only_area(places, complaints)?;
    let mut scratch = Page::ZERO;
    let mut area = area_of(&mut device, &mut scratch)?;
    let old = match area.configuration() {
        Ok(old) => old,
        // After a failed read, the configuration on the disk may still be valid.
        Err(ConfigurationError::Medium(error)) => return Err(error.into()),
        Err(error) => {
            complain(
                complaints,
                format_args!("{error}; a new configuration is written"),
            );
            Configuration::default()
        }
    };
    let new = to(old);
    area.configure(&new)?;
    Ok(new)
}

/// Opens the machine's only sleep area, for writing. A domain has none.
pub(crate) fn open_only_area(
    places: &Places<'_>,
    complaints: &mut dyn Write,
) -> Result<BlockDevice, Error> {
    need_machine(places)?;
    let only = find_only(places, complaints)?;
    BlockDevice::open(places, &only.node, Access::Write)
}

/// The sleep area that takes all of a device.
pub(crate) fn area_of<'a>(
    device: &'a mut BlockDevice,
    scratch: &'a mut Page,
) -> Result<Area<'a, BlockDevice>, Error> {
    let bytes = device.capacity();
    let all = Window::new(device, 0, bytes)?;
    Ok(Area::open(all, scratch, None, RecordFormat::Image)?)
}
