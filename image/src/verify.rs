use poorwill_medium::Medium;
use poorwill_memory::Page;

use crate::Progress;
use crate::load::LoadError;
use crate::open::Checked;

/// Reads all page data and checks it, without putting it anywhere. `scratch`
/// holds at least one page; more are faster.
///
/// # Errors
///
/// See [`LoadError`].
pub fn verify<M: Medium>(
    slot: &mut M,
    image: &Checked<'_>,
    scratch: &mut [Page],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LoadError> {
    let _ = (slot, image, scratch, progress);
    todo!()
}
