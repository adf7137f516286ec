//! What somebody does who has a machine's disk or its flash in hands.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use poorwill_vault::{BLOCKS, FileFlash, Key, Vault};

use crate::damage::{self, Found};
use crate::disks::{TrialDisk, copy_part};
use crate::plan::Tamper;

/// The second bank of a `virt` machine's flash: so many bytes, each all ones.
pub(crate) const VAULT_BYTES: u32 = 32 << 20;

/// Bytes of the vault's part of it.
const PART_BYTES: u32 = BLOCKS * (256 << 10);

/// Does so to a machine's disk, or to its flash. `make` makes a new disk of the same
/// kind.
pub(crate) fn apply(
    tamper: Tamper,
    disk: &TrialDisk,
    flash: &Path,
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
        Tamper::NewMachine => fs::write(flash, erased())?,
        Tamper::OtherMachine => {
            fs::write(flash, erased())?;
            vault(flash)?.install_key(Key::new(&[0x77; 32]))?;
        }
        Tamper::OthersFlash => fs::write(flash, others())?,
        Tamper::CheckOthersFlash => {
            ensure!(
                fs::read(flash)? == others(),
                "somebody else's flash was written to"
            );
        }
        Tamper::EraseKey => vault(flash)?.erase_key()?,
        Tamper::Unseal => damage::unseal(file, disk.block_bytes())?,
    }
    Ok(())
}

/// The contents of a new flash.
pub(crate) fn erased() -> Vec<u8> {
    vec![0xff; VAULT_BYTES as usize]
}

/// The contents of a flash that somebody uses the beginning of.
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

/// Copies the sleep area to a new disk, which is laid out alike.
fn copy_area(disk: &TrialDisk, new: &TrialDisk) -> anyhow::Result<()> {
    let area = Found::on(&disk.file, disk.block_bytes())?.area();
    let new_area = Found::on(&new.file, new.block_bytes())?.area();
    ensure!(area == new_area, "the new disk is laid out otherwise");
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
    Ok(Vault::open(flash, VAULT_BYTES - PART_BYTES..VAULT_BYTES)?)
}
