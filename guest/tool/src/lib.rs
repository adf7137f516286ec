//! `poorwill-guest`: shows and sets the sleep mode of a machine from its running Linux.
//!
//! Only start and exit of the program are outside of this library, so that tests run it on any
//! Linux. Like the host's `poorwill area set`, it writes the sleep area's configuration to the
//! disk. The firmware reads it at the next sleep.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod area;
mod check;
mod command;
mod complaint;
mod cut;
mod device;
mod disks;
mod domain;
mod duration;
mod error;
mod files;
mod places;
mod snapshot;
mod status;
mod update;

use core::fmt::Write;

use poorwill_log::TEXT_BYTES;
use poorwill_medium::Medium;
use poorwill_memory::Page;
use poorwill_store::ConfigurationError;

use area::{area_of, change};
use command::{Command, HELP, Setting};
use complaint::complain;
use device::{Access, BlockDevice};
use disks::{Found, find};
use domain::domain;
use error::Error;
pub use places::Places;
use status::{Sleeping, Slots, Told};

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
