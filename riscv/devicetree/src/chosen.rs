//! What the previous stage has chosen.

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use dtoolkit::{Node, Property};

/// How many bytes of the previous stage's seed are kept.
pub const MAX_SEED: usize = 64;

/// The path of the console, without the options behind its colon.
pub(crate) fn stdout_name<'a>(root: FdtNode<'a>) -> Option<&'a str> {
    let path = root
        .child("chosen")?
        .property("stdout-path")?
        .value_as::<&'a str>()
        .ok()?;
    let path = path.split(':').next()?;
    if path.starts_with('/') {
        return Some(path);
    }
    root.child("aliases")?
        .property(path)?
        .value_as::<&'a str>()
        .ok()
}

/// Random bytes from the previous stage, of which the first [`MAX_SEED`] are kept.
pub(crate) fn read_seed(root: FdtNode<'_>) -> ArrayVec<u8, MAX_SEED> {
    let chosen = root.child("chosen");
    let seed = chosen.and_then(|chosen| chosen.property("rng-seed"));
    let Some(seed) = seed else {
        return ArrayVec::new();
    };
    seed.value().iter().copied().take(MAX_SEED).collect()
}
