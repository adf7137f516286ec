//! The previous stage's choices (`/chosen`).

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use dtoolkit::{Node, Property};

/// Maximum bytes of the previous stage's seed that are kept.
pub const MAX_SEED: usize = 64;

/// The console's path, without the options after its colon.
pub(crate) fn stdout_name<'a>(root: FdtNode<'a>, chosen: Option<FdtNode<'a>>) -> Option<&'a str> {
    let path = chosen?
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

/// Reads the previous stage's random bytes, at most [`MAX_SEED`].
pub(crate) fn read_seed(chosen: Option<FdtNode<'_>>) -> ArrayVec<u8, MAX_SEED> {
    let seed = chosen.and_then(|chosen| chosen.property("rng-seed"));
    let Some(seed) = seed else {
        return ArrayVec::new();
    };
    seed.value().iter().copied().take(MAX_SEED).collect()
}
