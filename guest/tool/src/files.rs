//! Reads Linux's small files about its devices.

use core::str;

use arrayvec::{ArrayString, ArrayVec};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read as read_some, retry_on_intr};

use crate::error::{Error, Name};
use crate::places::Places;

/// Joins the parts of a path with slashes.
pub(crate) fn path(parts: &[&str]) -> Result<ArrayString<256>, Error> {
    let mut path = ArrayString::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            path.try_push('/')?;
        }
        path.try_push_str(part)?;
    }
    Ok(path)
}

/// The first `N` bytes of a file, or all bytes of a shorter one; `None`: no such file.
pub(crate) fn read<const N: usize>(path: &str) -> Result<Option<ArrayVec<u8, N>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = match retry_on_intr(|| open(path, flags, Mode::empty())) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let mut bytes = ArrayVec::from([0; N]);
    let mut length = 0;
    while length < N {
        match retry_on_intr(|| read_some(&file, &mut bytes[length..]))? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(Some(bytes))
}

/// A number from a block device's folder in sysfs; `None`: no such file.
pub(crate) fn number(
    places: &Places<'_>,
    device: &str,
    file: &'static str,
) -> Result<Option<u64>, Error> {
    let path = path(&[places.blocks, device, file])?;
    let device = Name::from(device)?;
    let bytes = read::<24>(&path).map_err(|reason| Error::Attribute {
        device,
        file,
        reason,
    })?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let number = str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.trim_ascii_end().parse().ok());
    match number {
        None => Err(Error::NoNumber { device, file }),
        number => Ok(number),
    }
}
