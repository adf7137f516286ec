//! `poorwill-guest`: how the machine sleeps, shown and chosen from its running
//! Linux.
//!
//! All but the program's beginning and end is here, so that it runs, and is
//! tested, on any Linux. It keeps the sleep area's configuration as the host's
//! `poorwill area set` does, through the disk: the firmware reads it at the next
//! sleep.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod command;
mod cut;
mod device;
mod disks;
mod duration;
mod error;
mod files;
mod snapshot;
mod status;
mod update;

use core::fmt::{self, Write};

use poorwill_log::TEXT_BYTES;
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{Area, Configuration, ConfigurationError};

use command::{Command, HELP, Setting};
use device::{Access, BlockDevice};
use disks::{Found, Survey, survey};
use error::Error;
use status::{Sleeping, Slots, Told};

/// Where Linux shows what the program looks at.
#[derive(Clone, Copy, Debug)]
pub struct Places<'p> {
    /// Its block devices: `/sys/class/block`.
    pub blocks: &'p str,
    /// Their nodes: `/dev`.
    pub nodes: &'p str,
    /// What the firmware has told it last:
    /// `/proc/device-tree/chosen/poorwill,boot`.
    pub told: &'p str,
    /// The firmware's log: `/proc/device-tree/chosen/poorwill,log`.
    pub log: &'p str,
    /// What it has told of cuts: `/proc/device-tree/chosen/poorwill,cut`.
    pub cut: &'p str,
    /// PCI's functions: `/sys/bus/pci/devices`.
    pub pci: &'p str,
    /// Devices that are not on a bus which tells of them: `/sys/bus/platform/devices`.
    pub platform: &'p str,
    /// IOMMUs that have a driver: `/sys/class/iommu`.
    pub iommus: &'p str,
    /// What is mounted: `/proc/self/mounts`.
    pub mounts: &'p str,
    /// What it swaps to: `/proc/swaps`.
    pub swaps: &'p str,
    /// Where it is told to sleep: `/sys/power/state`.
    pub power: &'p str,
}

/// Done.
const DONE: u8 = 0;
/// It did not work, or something is not as it should be.
const FAILED: u8 = 1;
/// The words make no command.
const WRONG_USAGE: u8 = 2;

/// Does what the words behind the program's name ask for, and returns the exit
/// status. What is asked for goes to `out`, what is wrong to `complaints`.
pub fn run(
    words: &[&str],
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> u8 {
    let command = match Command::parse(words) {
        Ok(command) => command,
        Err(error) => {
            let hint = "(`poorwill-guest help` tells what there is)";
            complain(complaints, format_args!("{error}\n{hint}"));
            return WRONG_USAGE;
        }
    };
    let done = match command {
        Command::Help => out.write_str(HELP).map_err(Error::from),
        Command::Status => show(places, out, complaints),
        Command::Log => show_log(places, out),
        Command::CheckCut => cut::check(places, out),
        Command::Foretell(firmware) => foretell(firmware, places, out, complaints),
        Command::Set(setting) => set(setting, places, out, complaints),
        Command::Snapshot { name, unguarded } => {
            snapshot::take((name, unguarded), places, out, complaints)
        }
        Command::Well => snapshot::well(places, out, complaints),
    };
    match done {
        Ok(()) => DONE,
        Err(error) => {
            complain(complaints, format_args!("{error}"));
            FAILED
        }
    }
}

/// There is nobody else to tell, should this fail.
fn complain(complaints: &mut dyn Write, text: fmt::Arguments<'_>) {
    let _nobody_listens = writeln!(complaints, "poorwill-guest: {text}");
}

fn show(places: &Places<'_>, out: &mut dyn Write, complaints: &mut dyn Write) -> Result<(), Error> {
    let areas = find(places, complaints)?;
    if areas.is_empty() {
        writeln!(
            out,
            "sleep area   none on any NVMe disk of Linux's: without one the machine sleeps by retain"
        )?;
    }
    let mut unusable = None;
    for area in &areas {
        unusable = unusable.or(show_area(area, places, out)?);
    }
    let told = files::read::<256>(places.told).map_err(Error::Told)?;
    writeln!(out, "firmware     {}", Told(told.as_deref()))?;
    match unusable {
        _ if areas.len() > 1 => Err(Error::SeveralAreas(areas.len())),
        Some(error) => Err(Error::Configuration(error)),
        None => Ok(()),
    }
}

/// Shows the firmware's last lines.
fn show_log(places: &Places<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let log = files::read::<TEXT_BYTES>(places.log).map_err(Error::Told)?;
    let log = log.ok_or(Error::NoLog)?;
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        writeln!(out, "{}", Told(Some(line)))?;
    }
    Ok(())
}

/// Tells which images the firmware in a file would wake.
fn foretell(
    firmware: &str,
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> Result<(), Error> {
    let manifest = update::manifest(firmware)?;
    writeln!(out, "that firmware {manifest}")?;
    let mut takes_all = true;
    for area in &find(places, complaints)? {
        takes_all &= update::foretell(&manifest, area, places, out)?;
    }
    if takes_all {
        Ok(())
    } else {
        Err(Error::NotTaken)
    }
}

/// Shows one area; why its configuration cannot be used, if so.
fn show_area(
    found: &Found,
    places: &Places<'_>,
    out: &mut dyn Write,
) -> Result<Option<ConfigurationError>, Error> {
    let mut device = BlockDevice::open(places, &found.node, Access::Read)?;
    let mut scratch = Page::ZERO;
    let bytes = device.capacity();
    let mut area = area_of(&mut device, &mut scratch)?;
    let configuration = area.configuration();
    writeln!(
        out,
        "sleep area   {}/{}, {} MiB",
        places.nodes,
        found.node,
        bytes >> 20
    )?;
    write!(out, "{}", Sleeping(configuration.unwrap_or_default()))?;
    write!(out, "{}", Slots(area.slots()))?;
    Ok(configuration.err())
}

fn set(
    setting: Setting,
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> Result<(), Error> {
    let new = change(places, complaints, |old| setting.applied_to(old))?;
    write!(out, "{}", Sleeping(new))?;
    Ok(())
}

/// Changes the configuration of the only area, and returns what it is then.
fn change(
    places: &Places<'_>,
    complaints: &mut dyn Write,
    to: impl FnOnce(Configuration) -> Configuration,
) -> Result<Configuration, Error> {
    let mut device = open_only_area(places, complaints)?;
    let mut scratch = Page::ZERO;
    let mut area = area_of(&mut device, &mut scratch)?;
    let old = match area.configuration() {
        Ok(old) => old,
        // What cannot be read now may be there all the same.
        Err(ConfigurationError::Medium(error)) => return Err(error.into()),
        Err(error) => {
            complain(complaints, format_args!("{error}; it is set anew now"));
            Configuration::default()
        }
    };
    let new = to(old);
    area.configure(&new)?;
    Ok(new)
}

/// The machine's only sleep area, to be written to.
fn open_only_area(places: &Places<'_>, complaints: &mut dyn Write) -> Result<BlockDevice, Error> {
    let only = find_only(places, complaints)?;
    BlockDevice::open(places, &only.node, Access::Write)
}

/// The machine's only sleep area.
fn find_only(places: &Places<'_>, complaints: &mut dyn Write) -> Result<Found, Error> {
    match find(places, complaints)?.as_slice() {
        [] => Err(Error::NoArea),
        [only] => Ok(*only),
        several => Err(Error::SeveralAreas(several.len())),
    }
}

fn find(places: &Places<'_>, complaints: &mut dyn Write) -> Result<Survey, Error> {
    survey(places, &mut |node: &str, error: Error| {
        complain(complaints, format_args!("{node}: {error}"));
    })
}

/// The area that a device is, all of it.
fn area_of<'a>(
    device: &'a mut BlockDevice,
    scratch: &'a mut Page,
) -> Result<Area<'a, BlockDevice>, Error> {
    let bytes = device.capacity();
    let all = Window::new(device, 0, bytes)?;
    Ok(Area::open(all, scratch, None)?)
}
