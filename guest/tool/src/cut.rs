//! `cut check`: shows whether a power failure at this time would be a cut.
//!
//! The firmware has described the machine at the start, and Linux shows the devices in use. The
//! rules for these devices are those that the firmware applies at a cut.

use core::cell::Cell;
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::str;

use arrayvec::{ArrayString, ArrayVec};
use poorwill_drivers::is_driven;
use poorwill_keepers::Survey;
use poorwill_pci::{ConfigSpace, Function, HostBridge};
use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::error::Error;
use crate::files::{path, read};
use crate::places::Places;
use crate::status::Told;

/// The most host bridges that are examined.
const MAX_DOMAINS: usize = 16;

/// Shows each obstacle to a cut.
///
/// # Errors
///
/// [`Error::NoCut`]: there is an obstacle.
pub(crate) fn check(places: &Places<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut found = Found { out, obstacles: 0 };
    let told = read::<128>(places.cut).map_err(Error::Told)?;
    match told.as_deref() {
        Some(text) if text.starts_with(b"armed ") => {
            writeln!(found.out, "firmware     {}", Told(Some(text)))?;
            if text
                .split(|byte| *byte == b' ')
                .any(|word| word.starts_with(b"slow_disks="))
            {
                found.tell(format_args!(
                    "a disk may take longer to write its cache than the power lasts: \
                     poorwill-guest log tells which"
                ))?;
            }
        }
        Some(text) => found.tell(format_args!("{}", Told(Some(text))))?,
        None => found.tell(format_args!(
            "the firmware found no power-fail line, so memory is not persistent"
        ))?,
    }
    check_pci(places, &mut found)?;
    check_virtio(places, &mut found)?;
    check_iommus(places, &mut found)?;
    match found.obstacles {
        0 => {
            writeln!(found.out, "in the way   no obstacle found")?;
            Ok(())
        }
        _ => Err(Error::NoCut),
    }
}

/// The obstacles to a cut that were found.
struct Found<'o> {
    out: &'o mut dyn Write,
    obstacles: usize,
}

impl Found<'_> {
    fn tell(&mut self, obstacle: fmt::Arguments<'_>) -> Result<(), Error> {
        self.obstacles += 1;
        Ok(writeln!(self.out, "in the way   {obstacle}")?)
    }
}

/// Finds the PCI functions that prevent a cut.
fn check_pci(places: &Places<'_>, found: &mut Found<'_>) -> Result<(), Error> {
    // For each PCI domain, the lowest number of its buses.
    let mut domains = ArrayVec::<(u32, u8), MAX_DOMAINS>::new();
    for_each_in(places.pci, &mut |name| {
        let Some((domain, bus)) = domain_and_bus(name) else {
            return Ok(());
        };
        match domains.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, first)) => *first = bus.min(*first),
            None => domains
                .try_push((domain, bus))
                .map_err(|_| Error::LongList("PCI's host bridges"))?,
        }
        Ok(())
    })?;
    let mut survey = Survey::new();
    for (domain, first_bus) in domains {
        let config = Config {
            places,
            domain,
            error: Cell::new(None),
        };
        let host = HostBridge {
            first_bus,
            last_bus: u8::MAX,
            windows: ArrayVec::new(),
        };
        let mut told = Ok(());
        let looked = survey.look(&config, &host, |obstacle| {
            told = told.and(found.tell(format_args!("{obstacle}")));
        });
        told?;
        config.error.get().map_or(Ok(()), Err)?;
        if let Err(obstacle) = looked {
            found.tell(format_args!("{obstacle}"))?;
        }
    }
    Ok(())
}

/// Parses Linux's name of a PCI function: `0000:01:00.0`.
pub(crate) fn domain_and_bus(name: &str) -> Option<(u32, u8)> {
    let (domain, rest) = name.split_once(':')?;
    let (bus, _) = rest.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some((domain, u8::from_str_radix(bus, 16).ok()?))
}

/// The configuration space of a domain's PCI functions, in sysfs.
struct Config<'p> {
    places: &'p Places<'p>,
    domain: u32,
    /// The reason of a failed read.
    error: Cell<Option<Error>>,
}

impl Config<'_> {
    /// `None`: the function does not exist.
    fn read(&self, function: Function, register: u16) -> Result<Option<u32>, Error> {
        let mut name = ArrayString::<16>::new();
        write!(name, "{:04x}:{function}", self.domain)?;
        let path = path(&[self.places.pci, &name, "config"])?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| open(path.as_str(), flags, Mode::empty()));
        let mut bytes = [0; 4];
        let length = match opened {
            Err(Errno::NOENT) => return Ok(None),
            Err(reason) => Err(reason),
            Ok(file) => retry_on_intr(|| pread(&file, &mut bytes, register.into())),
        };
        match length.map_err(Error::Function)? {
            4 => Ok(Some(u32::from_le_bytes(bytes))),
            // Without access to the extended configuration space, Linux's file ends here.
            0 if register >= 0x100 => Ok(None),
            // Only root can read more than the first 64 bytes.
            _ => Err(Error::Function(Errno::PERM)),
        }
    }
}

impl ConfigSpace for Config<'_> {
    fn read32(&self, function: Function, register: u16) -> u32 {
        let read = self.read(function, register).unwrap_or_else(|error| {
            self.error.set(Some(error));
            None
        });
        read.unwrap_or(u32::MAX)
    }

    fn write32(&self, _: Function, _: u16, _: u32) {
        unreachable!("the check only reads");
    }
}

/// Finds virtio devices in use that are not on PCI.
fn check_virtio(places: &Places<'_>, found: &mut Found<'_>) -> Result<(), Error> {
    for_each_in(places.platform, &mut |place| {
        let Some(address) = place.strip_suffix(".virtio_mmio") else {
            return Ok(());
        };
        let folder = path(&[places.platform, place])?;
        for_each_in(&folder, &mut |device| {
            if !device.starts_with("virtio") {
                return Ok(());
            }
            let status = read::<16>(&path(&[&folder, device, "status"])?);
            let status = status.map_err(Error::Virtio)?;
            let status = status.as_deref().and_then(hexadecimal);
            match status.ok_or(Error::Virtio(Errno::NOENT))? {
                status if is_driven(status) => found.tell(format_args!(
                    "the device at 0x{address} is in use, and the firmware cannot restore it"
                )),
                _ => Ok(()),
            }
        })
    })
}

/// Parses a number as sysfs writes it: `0x0000000f`.
fn hexadecimal(text: &[u8]) -> Option<u32> {
    let text = str::from_utf8(text).ok()?.trim_ascii_end();
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Finds IOMMUs that Linux uses.
fn check_iommus(places: &Places<'_>, found: &mut Found<'_>) -> Result<(), Error> {
    for_each_in(places.iommus, &mut |name| {
        found.tell(format_args!(
            "the IOMMU {name} is in use, and the firmware cannot restore it"
        ))
    })
}

/// Calls `each` with each name in a folder of sysfs. A missing folder is empty.
pub(crate) fn for_each_in(
    folder: &str,
    each: &mut dyn FnMut(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match retry_on_intr(|| open(folder, flags, Mode::empty())) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(reason) => return Err(Error::Sysfs(reason)),
    };
    let mut room = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(folder, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(Error::Sysfs)?;
        match str::from_utf8(entry.file_name().to_bytes()) {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => each(name)?,
        }
    }
    Ok(())
}
