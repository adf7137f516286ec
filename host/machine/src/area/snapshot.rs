//! Renaming, deleting, exporting and importing the snapshot of a disk.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use poorwill_image::{CopyError, CopyRequest, Header, Seal, SealingKey, Workspace, copy};
use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use poorwill_store::{Area, CommitError, MIN_AREA_BYTES, Name, Purpose, RecordFormat, StoreError};
use poorwill_vault::RollbackCounter;
use thiserror::Error;

use super::find::AreaError;
use super::only::{OnlyArea, open_only};
use super::room::work_pages;
use crate::disk::{FileMedium, PRIVATE, temporary_beside};
use crate::flash::{Flash, FlashError, new_salt};
use crate::interrupt::{self, Interrupted};

/// Why a change of a snapshot failed.
#[derive(Debug, Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Area(#[from] AreaError),
    #[error(transparent)]
    Flash(#[from] FlashError),
    #[error("{}: {reason}", .file.display())]
    Store { file: PathBuf, reason: StoreError },
    #[error("{}: {reason}", .file.display())]
    Copy { file: PathBuf, reason: CopyError },
    #[error("{}: {reason}", .file.display())]
    Commit { file: PathBuf, reason: CommitError },
    #[error("{} exists: choose another name", .0.display())]
    Exists(PathBuf),
    #[error("{}: {reason}", .file.display())]
    File { file: PathBuf, reason: io::Error },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Renames the snapshot of `disk`.
///
/// # Errors
///
/// After a [`SnapshotError`] the name is the old one, or, if the disk failed, perhaps the new one.
pub fn name(disk: &Path, name: Name) -> Result<(), SnapshotError> {
    let mut only = open_only(disk)?;
    on_area(disk, &mut only, None, |area| area.name_snapshot(name))
}

/// Deletes the snapshot of `disk`. With `flash` it also removes the snapshot from the vault, so
/// that no copy of it wakes.
///
/// # Errors
///
/// [`SnapshotError`].
pub fn delete(disk: &Path, flash: Option<&Path>) -> Result<(), SnapshotError> {
    let mut only = open_only(disk)?;
    match flash {
        None => on_area(disk, &mut only, None, |area| area.delete_snapshot()),
        Some(flash) => Flash::change(flash, |counter, _| {
            on_area(disk, &mut only, Some(counter), |area| {
                area.delete_snapshot()
            })
        })?,
    }
}

/// Copies the snapshot of `disk` into a new file, not sealed, for other machines of the same kind.
/// A sealed snapshot needs its machine's flash. The file appears only when complete.
///
/// # Errors
///
/// [`SnapshotError`].
pub fn export(
    disk: &Path,
    flash: Option<&Path>,
    file: &Path,
    bar: &ProgressBar,
) -> Result<(), SnapshotError> {
    let failed = |reason: io::Error| match reason.kind() {
        io::ErrorKind::AlreadyExists => SnapshotError::Exists(file.to_owned()),
        _ => SnapshotError::File {
            file: file.to_owned(),
            reason,
        },
    };
    if file.symlink_metadata().is_ok() {
        return Err(SnapshotError::Exists(file.to_owned()));
    }
    let flash = flash.map(Flash::read).transpose()?;
    let key = flash.as_ref().and_then(Flash::sealing_key);
    let mut from = open_only(disk)?;
    let bytes = on_area(disk, &mut from, None, |area| {
        let (_, record, _) = area.snapshot().ok_or(StoreError::NoSnapshot)?;
        Ok(record.image_bytes)
    })?;
    let temporary = temporary_beside(file, PRIVATE).map_err(failed)?;
    let length = area_bytes_for(bytes);
    temporary.as_file().set_len(length).map_err(failed)?;
    let new = temporary.reopen().map_err(failed)?;
    let mut to = OnlyArea::whole_file(new, length);
    transfer(
        (disk, &mut from, key),
        (file, &mut to, None, None),
        None,
        bar,
    )?;
    temporary.as_file().sync_all().map_err(failed)?;
    let kept = temporary.persist_noclobber(file);
    kept.map(drop).map_err(|error| failed(error.into()))
}

/// Imports an exported snapshot into `disk`, sealed if the machine has flash. Earlier images of the
/// machine are discarded, even one that waits to wake.
///
/// # Errors
///
/// After a [`SnapshotError`] an older snapshot may still be there.
pub fn import(
    file: &Path,
    disk: &Path,
    flash: Option<&Path>,
    name: Option<Name>,
    bar: &ProgressBar,
) -> Result<(), SnapshotError> {
    let failed = |reason| SnapshotError::File {
        file: file.to_owned(),
        reason,
    };
    let opened = File::open(file).map_err(failed)?;
    let length = opened.metadata().map_err(failed)?.len();
    let mut from = OnlyArea::whole_file(opened, length);
    let mut to = open_only(disk)?;
    match flash {
        None => transfer(
            (file, &mut from, None),
            (disk, &mut to, None, None),
            name,
            bar,
        ),
        Some(flash) => Flash::change(flash, |counter, key| {
            let target = (disk, &mut to, Some(counter), Some(key));
            transfer((file, &mut from, None), target, name, bar)
        })?,
    }
}

/// Bytes of an area whose slots can hold an image of `image_bytes`.
fn area_bytes_for(image_bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    (MIB + 2 * image_bytes.next_multiple_of(MIB)).max(MIN_AREA_BYTES)
}

type MachineCounter = dyn RollbackCounter + 'static;

/// Shortens the lifetime of a trait object: `Area` needs that of its disk.
fn any(counter: Option<&mut MachineCounter>) -> Option<&mut dyn RollbackCounter> {
    counter.map(|counter| counter as &mut dyn RollbackCounter)
}

fn on_area<R>(
    file: &Path,
    only: &mut OnlyArea,
    counter: Option<&mut MachineCounter>,
    job: impl FnOnce(&mut Area<'_, FileMedium>) -> Result<R, StoreError>,
) -> Result<R, SnapshotError> {
    let mut scratch = Page::ZERO;
    only.window()
        .and_then(|window| Area::open(window, &mut scratch, any(counter), RecordFormat::Image))
        .and_then(|mut area| job(&mut area))
        .map_err(|reason| SnapshotError::Store {
            file: file.to_owned(),
            reason,
        })
}

/// A snapshot's source: its file, its area, and the key of its seal.
type From<'f> = (&'f Path, &'f mut OnlyArea, Option<&'f SealingKey>);

/// A snapshot's destination: its file, and the machine's counter and key.
type To<'t> = (
    &'t Path,
    &'t mut OnlyArea,
    Option<&'t mut MachineCounter>,
    Option<&'t SealingKey>,
);

fn transfer(
    (from_file, from, from_key): From<'_>,
    (to_file, to, counter, to_key): To<'_>,
    name: Option<Name>,
    bar: &ProgressBar,
) -> Result<(), SnapshotError> {
    let of = |file: &Path| {
        let file = file.to_owned();
        move |reason| SnapshotError::Store { file, reason }
    };
    let (mut from_page, mut to_page) = (Page::ZERO, Page::ZERO);
    let from_window = from.window().map_err(of(from_file))?;
    let mut from_area = Area::open(from_window, &mut from_page, None, RecordFormat::Image)
        .map_err(of(from_file))?;
    let (slot, record, _) = from_area
        .snapshot()
        .ok_or(StoreError::NoSnapshot)
        .map_err(of(from_file))?;
    let committed = poorwill_image::Expected {
        header_checksum: record.header_checksum,
        generation: record.generation,
        kind: poorwill_image::ImageKind::Snapshot,
    };
    let purpose = Purpose::Snapshot(name.unwrap_or(record.name));
    let mut from_slot = from_area
        .slot(slot)
        .map_err(|error| of(from_file)(error.into()))?;

    let to_window = to.window().map_err(of(to_file))?;
    let mut to_area = Area::open(to_window, &mut to_page, any(counter), RecordFormat::Image)
        .map_err(of(to_file))?;
    let mut open = to_area.begin(purpose).map_err(of(to_file))?;
    let request = CopyRequest {
        committed,
        key: from_key,
        generation: open.generation(),
        seal: match to_key {
            Some(key) => Some(Seal {
                key,
                salt: new_salt()?,
            }),
            None => None,
        },
    };
    let saved = {
        let mut to_slot = open.medium().map_err(|error| of(to_file)(error.into()))?;
        copy_image(&mut from_slot, &mut to_slot, &request, bar).map_err(|reason| {
            SnapshotError::Copy {
                file: from_file.to_owned(),
                reason,
            }
        })?
    };
    interrupt::check()?;
    open.commit(&saved, 0)
        .map(drop)
        .map_err(|reason| SnapshotError::Commit {
            file: to_file.to_owned(),
            reason,
        })
}

fn copy_image<M: Medium, N: Medium>(
    from: &mut M,
    to: &mut N,
    request: &CopyRequest<'_>,
    bar: &ProgressBar,
) -> Result<poorwill_image::Saved, CopyError> {
    let mut page = [Page::ZERO];
    from.read(0, &mut page)
        .map_err(poorwill_image::OpenError::from)?;
    let os_pages = Header::parse(&page[0])
        .map_err(poorwill_image::OpenError::from)?
        .os_pages;
    let mut pages = work_pages(os_pages, from);
    let workspace =
        Workspace::new(&mut pages, os_pages).map_err(|error| CopyError::Save(error.into()))?;
    let mut scratch = vec![Page::ZERO; to_usize(poorwill_image::PIECE_PAGES)];
    copy(
        from,
        to,
        request,
        workspace,
        &mut scratch,
        &mut |progress| {
            bar.set_length(progress.total_pages * PAGE_BYTES);
            bar.set_position(progress.moved_bytes);
        },
    )
}
