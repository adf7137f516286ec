//! A machine with an executor: by a device tree of the user, or by `--weak-core`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use poorwill_devicetree::{Machine as Described, NoExecutor};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::{Machine, Part, Qemu, tree};
use tempfile::TempDir;

/// Refuses a tree in QEMU's arguments that asks for an executor, on a machine that cannot have one.
/// The firmware would start without it.
///
/// # Errors
///
/// The tree cannot be read, the firmware would refuse it, or why there is no executor.
pub(super) fn check(arguments: &[OsString]) -> anyhow::Result<()> {
    for file in trees(arguments) {
        if let Some(reason) = refusal(file)? {
            bail!(
                "{}: there can be no executor: {reason}. Change the machine, or remove \
                 `poorwill,executor` from `/chosen`",
                file.display()
            );
        }
    }
    Ok(())
}

/// Asks for an executor, on a machine whose files must exist. Its weak core is the board's, or else
/// one more hart. The machine's device tree is in the folder that is returned, to be kept while the
/// machine runs.
///
/// # Errors
///
/// There is no tree, the firmware would refuse it, or why there is no executor.
pub(super) fn with_weak_core(machine: &mut Machine, qemu: &Qemu) -> anyhow::Result<TempDir> {
    let folder = socket_folder().context("no folder for the device tree")?;
    let file = folder.path().join("tree.dtb");
    let source = match machine.board.has(Part::WeakCore) {
        true => tree::EXECUTOR.to_owned(),
        false => {
            let weak = machine.harts;
            machine.harts += 1;
            tree::weak_core(weak)
        }
    };
    tree::write(machine, qemu, &source, &file)?;
    if let Some(reason) = refusal(&file)? {
        bail!(
            "--weak-core: there can be no executor: {reason}. Change the arguments for QEMU after \
             `--`"
        );
    }
    machine.add("-dtb", file);
    Ok(folder)
}

/// The device trees in QEMU's arguments.
pub(super) fn trees(arguments: &[OsString]) -> impl Iterator<Item = &Path> {
    let is_tree = |name: &OsString| name == "-dtb" || name == "--dtb";
    let pairs = arguments.windows(2);
    pairs
        .filter(move |pair| is_tree(&pair[0]))
        .map(|pair| Path::new(&pair[1]))
}

/// Why the firmware would start without the executor that the tree in `file` asks for.
fn refusal(file: &Path) -> anyhow::Result<Option<NoExecutor>> {
    let place = || file.display().to_string();
    let machine = Described::read(&fs::read(file).with_context(place)?).with_context(place)?;
    Ok(machine.executor.and_then(Result::err))
}
