//! What somebody does who has a machine's disk or its flash in hands.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use poorwill_vault::{BLOCKS, FileFlash, Key, Vault};

use crate::damage;
use crate::plan::Tamper;

/// The second bank of a `virt` machine's flash: so many bytes, each all ones.
pub(crate) const VAULT_BYTES: u32 = 32 << 20;

/// Bytes of the vault's part of it.
const PART_BYTES: u32 = BLOCKS * (256 << 10);

/// Does so to a machine's disk, or to its flash.
pub(crate) fn apply(
    tamper: Tamper,
    disk: &Path,
    block_bytes: u32,
    flash: &Path,
) -> anyhow::Result<()> {
    match tamper {
        Tamper::Copy => fs::copy(disk, copy_of(disk)).map(drop)?,
        Tamper::PutBack => fs::copy(copy_of(disk), disk).map(drop)?,
        Tamper::NewMachine => fs::write(flash, erased())?,
        Tamper::OtherMachine => {
            fs::write(flash, erased())?;
            vault(flash)?.install_key(Key::new(&[0x77; 32]))?;
        }
        Tamper::EraseKey => vault(flash)?.erase_key()?,
        Tamper::Unseal => damage::unseal(disk, block_bytes)?,
    }
    Ok(())
}

/// The contents of a new flash.
pub(crate) fn erased() -> Vec<u8> {
    vec![0xff; VAULT_BYTES as usize]
}

fn copy_of(disk: &Path) -> PathBuf {
    disk.with_extension("copy")
}

fn vault(flash: &Path) -> anyhow::Result<Vault<FileFlash>> {
    let file = File::options().read(true).write(true).open(flash)?;
    let flash = FileFlash::new(file).context("the flash file")?;
    Ok(Vault::open(flash, VAULT_BYTES - PART_BYTES..VAULT_BYTES)?)
}
