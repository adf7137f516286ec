//! A device tree of the user that asks for an executor.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use poorwill_devicetree::Machine;

/// Refuses a tree in QEMU's arguments that asks for an executor, on a machine that cannot have one.
/// The firmware would start without it.
///
/// # Errors
///
/// The tree cannot be read, the firmware would refuse it, or why there is no executor.
pub(super) fn check(arguments: &[OsString]) -> anyhow::Result<()> {
    let is_tree = |name: &OsString| name == "-dtb" || name == "--dtb";
    let pairs = arguments.windows(2);
    for file in pairs.filter(|pair| is_tree(&pair[0])).map(|pair| &pair[1]) {
        let file = Path::new(file);
        let place = || file.display().to_string();
        let machine = Machine::read(&fs::read(file).with_context(place)?).with_context(place)?;
        if let Some(Err(reason)) = machine.executor {
            bail!(
                "{}: there can be no executor: {reason}. Change the machine, or remove \
                 `poorwill,executor` from `/chosen`",
                place()
            );
        }
    }
    Ok(())
}
