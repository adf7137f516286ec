//! Programs and files for measuring cuts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use object::{Object, ObjectSymbol};
use poorwill_machine::{Qemu, paths};

/// Programs and files that machines for cuts need.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The emulator.
    pub qemu: Qemu,
    /// The firmware.
    pub firmware: PathBuf,
    /// The plugin for QEMU.
    pub plugin: PathBuf,
    /// The loader, for the first flash.
    pub loader: PathBuf,
    /// The tiny guest.
    pub guest: paths::Tiny,
    /// The folder for memory files and traces.
    pub folder: PathBuf,
}

impl Inputs {
    /// Finds all of them but the firmware and the folder.
    ///
    /// # Errors
    ///
    /// One of them is missing; the error names its remedy.
    pub fn find(firmware: PathBuf, folder: PathBuf) -> anyhow::Result<Self> {
        Ok(Inputs {
            qemu: Qemu::find()?,
            firmware,
            plugin: paths::plugin()?,
            loader: paths::loader()?,
            guest: paths::Tiny::find(paths::Kernel::Stock)?,
            folder,
        })
    }
}

/// The address of a symbol in the firmware's file.
pub(super) fn symbol(firmware: &Path, name: &str) -> anyhow::Result<u64> {
    let bytes = fs::read(firmware).with_context(|| firmware.display().to_string())?;
    let elf = object::File::parse(&*bytes)?;
    let found = elf.symbols().find(|symbol| symbol.name() == Ok(name));
    let found = found.with_context(|| format!("{}: no symbol {name}", firmware.display()))?;
    Ok(found.address())
}
