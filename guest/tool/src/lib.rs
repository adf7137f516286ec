//! `poorwill-guest`: shows and sets the sleep mode of a machine from its running Linux.
//!
//! Only start and exit of the program are outside of this library, so that tests run it on any
//! Linux. Like the host's `poorwill area set`, it writes the sleep area's configuration to the
//! disk. The firmware reads it at the next sleep.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod check;
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
use core::str;

use poorwill_log::TEXT_BYTES;
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{Area, Configuration, ConfigurationError};

use command::{Command, HELP, Setting};
use device::{Access, BlockDevice};
use disks::{Found, Survey, survey};
use error::{DOMAIN_BYTES, DomainName, Error};
use status::{Sleeping, Slots, Told};

/// Paths of Linux's files.
#[derive(Clone, Copy, Debug)]
pub struct Places<'p> {
    /// Block devices: `/sys/class/block`.
    pub blocks: &'p str,
    /// Device nodes: `/dev`.
    pub nodes: &'p str,
    /// The firmware's report of the last start or wake: `/proc/device-tree/chosen/poorwill,boot`.
    pub told: &'p str,
    /// The firmware's log: `/proc/device-tree/chosen/poorwill,log`.
    pub log: &'p str,
    /// The firmware's cut status: `/proc/device-tree/chosen/poorwill,cut`.
    pub cut: &'p str,
    /// The name of the OS's domain: `/proc/device-tree/chosen/poorwill,domain`.
    pub domain: &'p str,
    /// PCI functions: `/sys/bus/pci/devices`.
    pub pci: &'p str,
    /// The drivers of PCI functions: `/sys/bus/pci/drivers`.
    pub pci_drivers: &'p str,
    /// The drivers of virtio devices: `/sys/bus/virtio/drivers`.
    pub virtio_drivers: &'p str,
    /// Devices on buses that cannot be enumerated: `/sys/bus/platform/devices`.
    pub platform: &'p str,
    /// IOMMUs that have a driver: `/sys/class/iommu`.
    pub iommus: &'p str,
    /// Mounted file systems: `/proc/self/mounts`.
    pub mounts: &'p str,
    /// Swap devices: `/proc/swaps`.
    pub swaps: &'p str,
    /// The file that requests a sleep: `/sys/power/state`.
    pub power: &'p str,
}

const DONE: u8 = 0;
/// The command failed, or found a problem.
const FAILED: u8 = 1;
/// The command line is wrong.
const WRONG_USAGE: u8 = 2;

/// Runs the command with the arguments after the program's name, and returns the exit status.
/// Results go to `out`, and problems to `complaints`.
pub fn run(
    words: &[&str],
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> u8 {
    let command = match Command::parse(words) {
        Ok(command) => command,
        Err(error) => {
            let hint = "(`poorwill-guest help` lists the commands)";
            complain(complaints, format_args!("{error}\n{hint}"));
            return WRONG_USAGE;
        }
    };
    let done = match command {
        Command::Help => out.write_str(HELP).map_err(Error::from),
        Command::Status => show(places, out, complaints),
        Command::Log => show_log(places, out),
        Command::Check => check::check(places, out),
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

/// Writes a problem. If this fails, there is no other place for it.
fn complain(complaints: &mut dyn Write, text: fmt::Arguments<'_>) {
    let _nobody_listens = writeln!(complaints, "poorwill-guest: {text}");
}

fn show(places: &Places<'_>, out: &mut dyn Write, complaints: &mut dyn Write) -> Result<(), Error> {
    if let Some(name) = domain(places)? {
        writeln!(out, "domain       {name}: it sleeps by retain")?;
        return show_told(places, out);
    }
    let (areas, is_refused) = find(places, complaints)?;
    if areas.is_empty() && !is_refused {
        writeln!(
            out,
            "sleep area   none on any NVMe disk: the machine sleeps by retain"
        )?;
    }
    let mut unusable = None;
    for area in &areas {
        unusable = unusable.or(show_area(area, places, out)?);
    }
    show_told(places, out)?;
    match unusable {
        _ if areas.len() > 1 => Err(Error::SeveralAreas(areas.len())),
        Some(error) => Err(Error::Configuration(error)),
        None if areas.is_empty() && is_refused => Err(Error::RefusedArea),
        None => Ok(()),
    }
}

/// Shows the firmware's report of the last start or wake.
fn show_told(places: &Places<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let told = files::read::<256>(places.told).map_err(Error::Told)?;
    writeln!(out, "firmware     {}", Told(told.as_deref()))?;
    Ok(())
}

/// The name of the OS's domain, on a machine with domains.
fn domain(places: &Places<'_>) -> Result<Option<DomainName>, Error> {
    let Some(bytes) = files::read::<DOMAIN_BYTES>(places.domain).map_err(Error::Told)? else {
        return Ok(None);
    };
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut name = DomainName::new();
    name.push_str(str::from_utf8(text).unwrap_or("?"));
    Ok(Some(name))
}

/// Refuses a command that changes the machine's sleep, in a domain.
fn need_machine(places: &Places<'_>) -> Result<(), Error> {
    domain(places)?.map_or(Ok(()), |name| Err(Error::Domain(name)))
}

/// Shows the firmware's log.
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

/// Shows which images the firmware in a file would wake.
fn foretell(
    firmware: &str,
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> Result<(), Error> {
    let manifest = update::manifest(firmware)?;
    writeln!(out, "that firmware {manifest}")?;
    let mut takes_all = true;
    for area in &find(places, complaints)?.0 {
        takes_all &= update::foretell(&manifest, area, places, out)?;
    }
    if takes_all {
        Ok(())
    } else {
        Err(Error::NotTaken)
    }
}

/// Shows one area. An unusable configuration is an error.
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

/// Changes the configuration of the machine's only area, and returns the new one.
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
fn open_only_area(places: &Places<'_>, complaints: &mut dyn Write) -> Result<BlockDevice, Error> {
    need_machine(places)?;
    let only = find_only(places, complaints)?;
    BlockDevice::open(places, &only.node, Access::Write)
}

/// Finds the machine's only sleep area.
fn find_only(places: &Places<'_>, complaints: &mut dyn Write) -> Result<Found, Error> {
    match find(places, complaints)? {
        (areas, true) if areas.is_empty() => Err(Error::RefusedArea),
        (areas, _) => match areas.as_slice() {
            [] => Err(Error::NoArea),
            [only] => Ok(*only),
            several => Err(Error::SeveralAreas(several.len())),
        },
    }
}

/// Finds the sleep areas of the machine's disks, and returns whether others cannot be used.
fn find(places: &Places<'_>, complaints: &mut dyn Write) -> Result<(Survey, bool), Error> {
    let mut is_refused = false;
    let areas = survey(places, &mut |node: &str, error: Error| {
        is_refused |= matches!(error, Error::Table(error) if error.concerns_area());
        complain(complaints, format_args!("{node}: {error}"));
    })?;
    Ok((areas, is_refused))
}

/// The sleep area that takes all of a device.
fn area_of<'a>(
    device: &'a mut BlockDevice,
    scratch: &'a mut Page,
) -> Result<Area<'a, BlockDevice>, Error> {
    let bytes = device.capacity();
    let all = Window::new(device, 0, bytes)?;
    Ok(Area::open(all, scratch, None)?)
}
