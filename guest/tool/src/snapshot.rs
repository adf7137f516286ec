//! Takes a snapshot of the running machine, and records that its wake succeeded.

use core::fmt::Write;
use core::str;

use poorwill_memory::Page;
use poorwill_store::{Configuration, Name as SnapshotName};
use rustix::fs::{Mode, OFlags, open, sync};
use rustix::io::{retry_on_intr, write as write_some};

use crate::area::{area_of, change, open_only_area};
use crate::complaint::complain;
use crate::disks::unguarded_partitions;
use crate::domain::need_machine;
use crate::error::{Error, Name};
use crate::files;
use crate::places::Places;

/// Sleeps, and keeps the image as snapshot `name`. `unguarded` accepts partitions whose changes a
/// wake cannot detect. The call returns after each wake from the snapshot.
pub(crate) fn take(
    (name, unguarded): (SnapshotName, bool),
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> Result<(), Error> {
    need_machine(places)?;
    check_mounts(places)?;
    check_swaps(places)?;
    for unguarded_partition in &unguarded_partitions(places, complaints)? {
        if !unguarded {
            return Err(Error::Unguarded(*unguarded_partition));
        }
        complain(complaints, format_args!("{unguarded_partition}"));
    }
    let next = |next_snapshot: Option<SnapshotName>| {
        move |old| Configuration {
            next_snapshot,
            accepts_unguarded: unguarded && next_snapshot.is_some(),
            ..old
        }
    };
    change(places, complaints, next(Some(name)))?;
    sync();
    let slept = sleep(places);
    if slept.is_err() {
        // The next sleep must not replace the snapshot.
        change(places, complaints, next(None))?;
    }
    slept?;
    writeln!(out, "woken")?;
    Ok(())
}

/// Records that the machine is well after its snapshot's wake. Nothing is written if this is
/// recorded already, and no wake has failed since.
pub(crate) fn well(
    places: &Places<'_>,
    out: &mut dyn Write,
    complaints: &mut dyn Write,
) -> Result<(), Error> {
    let mut device = open_only_area(places, complaints)?;
    let mut scratch = Page::ZERO;
    area_of(&mut device, &mut scratch)?.snapshot_is_well()?;
    writeln!(out, "the snapshot wakes well")?;
    Ok(())
}

fn sleep(places: &Places<'_>) -> Result<(), Error> {
    let state = open(
        places.power,
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let state = state.map_err(Error::Sleep)?;
    retry_on_intr(|| write_some(&state, b"mem")).map_err(Error::Sleep)?;
    Ok(())
}

/// Checks that each file system on a disk is mounted read-only.
fn check_mounts(places: &Places<'_>) -> Result<(), Error> {
    lines(places.mounts, "the mounted file systems", |line| {
        let mut words = line.split(|byte| *byte == b' ');
        let (source, options) = (words.next(), words.nth(2));
        let is_writable = options
            .into_iter()
            .flat_map(|options| options.split(|byte| *byte == b','))
            .any(|option| option == b"rw");
        match disk(source) {
            Some(name) if is_writable => Err(Error::Writable(name)),
            _ => Ok(()),
        }
    })
}

/// Checks that no disk is used as swap.
fn check_swaps(places: &Places<'_>) -> Result<(), Error> {
    lines(places.swaps, "the swap devices", |line| {
        let source = line.split(|byte| matches!(byte, b' ' | b'\t')).next();
        match disk(source) {
            Some(name) => Err(Error::Swap(name)),
            None => Ok(()),
        }
    })
}

/// The block device in a line; `None`: the file system is in memory.
fn disk(source: Option<&[u8]>) -> Option<Name> {
    let name = str::from_utf8(source?.strip_prefix(b"/dev/")?).ok()?;
    let in_memory = ["zram", "ram"].iter().any(|kind| name.starts_with(kind));
    // A name that is too long is still a disk's, and is reported without the name.
    (!in_memory).then(|| Name::from(name).unwrap_or_default())
}

/// Calls `look` with each line of a file in `/proc`. A missing file is empty.
fn lines(
    path: &str,
    what: &'static str,
    look: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let list =
        files::read::<LIST_BYTES>(path).map_err(|reason| Error::List { file: what, reason })?;
    let list = list.unwrap_or_default();
    if list.is_full() {
        return Err(Error::LongList(what));
    }
    list.split(|byte| *byte == b'\n').try_for_each(look)
}

/// The most bytes of such a file.
const LIST_BYTES: usize = 1 << 16;
