//! A board's parts, read and judged.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use poorwill_devicetree::{
    BoardHart, DescriptionError, Machine, Purpose, board, board_harts, open, without_driver,
};
use poorwill_domain::FwDynamic;

use super::fences::{Assumed, Fences};
use super::sleeps::Sleeps;

/// Number of unknown devices of a purpose that are named.
const NAMED: usize = 3;

/// A device without a driver in the firmware.
pub(super) struct Unknown {
    pub(super) purpose: Purpose,
    pub(super) name: String,
    pub(super) compatible: Vec<String>,
}

/// A board.
pub(crate) struct Board {
    pub(super) file: PathBuf,
    /// The root's `compatible`: the board, then its SoC.
    pub(super) compatible: Vec<String>,
    pub(super) machine: Machine,
    /// Why the firmware would not start.
    pub(super) error: Option<DescriptionError>,
    pub(super) harts: Vec<BoardHart>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) assumed: Assumed,
    /// `None`: the machine is not known in full, or domains have its memory.
    pub(super) fences: Option<Fences>,
    pub(super) sleeps: Sleeps,
}

/// Reads the compiled device tree of a file, up to the size in its header.
///
/// # Errors
///
/// The file has no tree that the firmware would read.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let blob = fs::read(file)?;
    ensure!(
        !blob.is_empty(),
        "the file is empty; dump the device tree again"
    );
    // The firmware reads a tree's header at an address; here only the bytes matter.
    let load = |_, into: &mut [u8]| {
        let bytes = into.iter_mut().zip(&blob);
        bytes.for_each(|(to, from)| *to = *from);
    };
    let Ok(range) = FwDynamic::find_tree(1 << 12, load) else {
        bail!("no compiled device tree; compile source text by `dtc -I dts -O dtb`");
    };
    let bytes = usize::try_from(range.length())?;
    let there = blob.len();
    let Some(whole) = blob.get(..bytes) else {
        bail!("the device tree is cut off: it has {there} of {bytes} bytes; dump it again");
    };
    Ok(whole.to_vec())
}

impl Board {
    /// Reads a board's compiled device tree.
    ///
    /// # Errors
    ///
    /// The file has no tree that the firmware would read.
    pub(crate) fn read(file: &Path, assumed: Assumed) -> anyhow::Result<Self> {
        let place = || file.display().to_string();
        let blob = read(file).with_context(place)?;
        Self::of(file, &blob, assumed).with_context(place)
    }

    /// The board that a blob describes.
    ///
    /// # Errors
    ///
    /// The blob is damaged.
    pub(super) fn of(file: &Path, blob: &[u8], assumed: Assumed) -> anyhow::Result<Self> {
        let tree = open(blob).context("the device tree is damaged; dump it again")?;
        let mut machine = Machine::default();
        let error = machine.survey(blob).err();
        let mut unknown = Vec::new();
        without_driver(&tree, &mut |purpose, node| {
            unknown.push(Unknown {
                purpose,
                name: node.name().to_owned(),
                compatible: node.compatible().map(str::to_owned).collect(),
            });
        });
        Ok(Board {
            file: file.to_owned(),
            compatible: board(&tree).compatible().map(str::to_owned).collect(),
            error,
            harts: board_harts(&tree).collect(),
            unknown,
            // Without an error all closed registers are known.
            fences: match error {
                None => Fences::of(&machine, &assumed),
                Some(_) => None,
            },
            sleeps: Sleeps::of(&machine),
            assumed,
            machine,
        })
    }

    /// Returns whether the firmware would start there.
    pub(super) fn starts(&self) -> bool {
        self.error.is_none() && self.fences.as_ref().is_none_or(Fences::hold)
    }

    /// The first devices of this purpose, each with its `compatible`, and the number of others.
    pub(super) fn unknown(&self, purpose: Purpose) -> Vec<String> {
        let all = self.unknown.iter();
        let all = all.filter(|unknown| unknown.purpose == purpose);
        let count = all.clone().count();
        let text =
            |unknown: &Unknown| format!("{} ({})", unknown.name, unknown.compatible.join(", "));
        let mut texts: Vec<_> = all.take(NAMED).map(text).collect();
        if count > NAMED {
            texts.push(format!("{} more", count - NAMED));
        }
        texts
    }
}
