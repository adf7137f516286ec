use std::path::Path;

use poorwill_medium::Window;
use poorwill_memory::Page;
use poorwill_store::{Area, Configuration, ConfigurationError, SleepMode, StoreError};

use super::find::{AreaError, find};
use crate::disk::{FileMedium, look_at, open_locked};

/// What of a configuration is to change; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// How the machine sleeps.
    pub mode: Option<SleepMode>,
    /// How long `staged` retains, in ms.
    pub stage_delay_ms: Option<u64>,
    /// How long `auto` retains, in ms; 0: not set.
    pub break_even_ms: Option<u64>,
}

/// A sleep area that was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Number of the partition, from 1.
    pub partition: u32,
    /// How its machine sleeps now.
    pub configuration: Configuration,
    /// Why there was no earlier configuration to be read; the default took its
    /// place.
    pub replaced: Option<ConfigurationError>,
}

/// Changes how the machine of `disk` sleeps, durably; asleep it may be. The disk
/// is to have one sleep area, and not to be in use.
///
/// # Errors
///
/// [`AreaError`]; the configuration is the old one then, or, if the disk failed,
/// perhaps the new one.
pub fn configure(disk: &Path, change: &Change) -> Result<Configured, AreaError> {
    // The file that this opens is closed again at once: closing it later would
    // take the lock away.
    let (_, kind) = look_at(disk)?;
    let mut medium = FileMedium::new(open_locked("disk", disk)?, kind.bytes);
    let mut scratch = [Page::ZERO];
    let areas = find(disk, &mut medium, kind.block_bytes, &mut scratch)?;
    let [location] = areas.as_slice() else {
        return Err(AreaError::SeveralAreas {
            file: disk.to_owned(),
            count: areas.len(),
        });
    };
    let partition = location.partition;
    let [page] = &mut scratch;
    let configured = Window::new(&mut medium, location.start, location.length)
        .map_err(StoreError::from)
        .and_then(|window| Area::open(window, page, None))
        .and_then(|mut area| change.apply(&mut area));
    match configured {
        Ok((configuration, replaced)) => Ok(Configured {
            partition,
            configuration,
            replaced,
        }),
        Err(reason) => Err(AreaError::Area {
            file: disk.to_owned(),
            partition,
            reason,
        }),
    }
}

impl Change {
    fn apply(
        &self,
        area: &mut Area<'_, FileMedium>,
    ) -> Result<(Configuration, Option<ConfigurationError>), StoreError> {
        let (old, replaced) = match area.configuration() {
            Ok(old) => (old, None),
            // What cannot be read now may be there all the same.
            Err(ConfigurationError::Medium(error)) => return Err(error.into()),
            Err(error) => (Configuration::default(), Some(error)),
        };
        let new = Configuration {
            mode: self.mode.unwrap_or(old.mode),
            stage_delay_ms: self.stage_delay_ms.unwrap_or(old.stage_delay_ms),
            break_even_ms: self.break_even_ms.unwrap_or(old.break_even_ms),
        };
        area.configure(&new)?;
        Ok((new, replaced))
    }
}
