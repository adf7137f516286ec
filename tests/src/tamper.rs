//! Attacks on a machine's disk or flash.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use poorwill_vault::{BLOCKS, FileFlash, Key, Vault};

use crate::disks::{TrialDisk, copy_part};
use crate::forge;
use crate::layout::Found;
use crate::plan::Tamper;

/// Bytes of the second flash of a `virt` machine. An erased byte is 0xff.
pub(crate) const VAULT_BYTES: u32 = 32 << 20;

/// Bytes of the vault's part of the flash.
const PART_BYTES: u32 = BLOCKS * (256 << 10);

/// Applies an attack to a machine's disk or its flash. `make` creates a new disk of the same kind.
pub(crate) fn apply(
    tamper: Tamper,
    disk: Option<&TrialDisk>,
    flash: &Path,
    make: impl FnOnce(PathBuf) -> anyhow::Result<TrialDisk>,
) -> anyhow::Result<()> {
    match tamper {
        Tamper::Copy | Tamper::PutBack | Tamper::OtherDisk | Tamper::Unseal => {
            apply_to_disk(tamper, disk.context("the row has no disk")?, make)
        }
        _ => apply_to_flash(tamper, flash),
    }
}

fn apply_to_disk(
    tamper: Tamper,
    disk: &TrialDisk,
    make: impl FnOnce(PathBuf) -> anyhow::Result<TrialDisk>,
) -> anyhow::Result<()> {
    let file = &disk.file;
    match tamper {
        Tamper::Copy => copy(file, &copy_of(file))?,
        Tamper::PutBack => copy(&copy_of(file), file)?,
        Tamper::OtherDisk => {
            let other = make(file.with_extension("other"))?;
            copy_area(disk, &other)?;
            fs::rename(other.file, file)?;
        }
        Tamper::Unseal => forge::unseal(file, disk.block_bytes())?,
        _ => bail!("{tamper:?} is done to the flash"),
    }
    Ok(())
}

fn apply_to_flash(tamper: Tamper, flash: &Path) -> anyhow::Result<()> {
    match tamper {
        Tamper::NewMachine => fs::write(flash, erased())?,
        Tamper::OtherMachine => {
            fs::write(flash, erased())?;
            vault(flash)?.install_key(Key::new(&[0x77; 32]))?;
        }
        Tamper::OthersFlash => fs::write(flash, others())?,
        Tamper::CheckOthersFlash => {
            ensure!(
                fs::read(flash)? == others(),
                "the firmware wrote to another program's flash"
            );
        }
        Tamper::EraseKey => vault(flash)?.erase_key()?,
        Tamper::DamageVault => damage_vault(flash)?,
        _ => bail!("{tamper:?} is done to the disk"),
    }
    Ok(())
}

/// The vault's range in the flash.
pub(crate) fn vault_range() -> Range<u32> {
    VAULT_BYTES - PART_BYTES..VAULT_BYTES
}

/// Damages half of the vault: only its header stays.
fn damage_vault(flash: &Path) -> anyhow::Result<()> {
    let mut bytes = fs::read(flash)?;
    let header = b"PWVAULT\0";
    let found = bytes
        .windows(header.len())
        .position(|window| window == header);
    let behind = found.context("there is no vault")? + 18;
    // The damage begins at a whole word.
    let behind = behind.next_multiple_of(4);
    bytes[behind..behind + 512].fill(0);
    Ok(fs::write(flash, bytes)?)
}

/// The contents of a new flash.
pub(crate) fn erased() -> Vec<u8> {
    vec![0xff; VAULT_BYTES as usize]
}

/// The contents of a flash whose start another program uses.
fn others() -> Vec<u8> {
    let mut bytes = erased();
    bytes[..0x48].fill(0x5a);
    bytes
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    let end = from.metadata()?.len();
    Ok(copy_part(&from, &to, 0..end)?)
}

/// Copies the sleep area to a new disk with the same partitions.
fn copy_area(disk: &TrialDisk, new: &TrialDisk) -> anyhow::Result<()> {
    let area = Found::on(&disk.file, disk.block_bytes())?.area();
    let new_area = Found::on(&new.file, new.block_bytes())?.area();
    ensure!(area == new_area, "the new disk has other partitions");
    let from = File::open(&disk.file)?;
    let to = File::options().write(true).open(&new.file)?;
    Ok(copy_part(&from, &to, area)?)
}

fn copy_of(disk: &Path) -> PathBuf {
    disk.with_extension("copy")
}

fn vault(flash: &Path) -> anyhow::Result<Vault<FileFlash>> {
    let file = File::options().read(true).write(true).open(flash)?;
    let flash = FileFlash::new(file).context("the flash file")?;
    Ok(Vault::open(flash, vault_range())?)
}
