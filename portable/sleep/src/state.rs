use poorwill_image::{Opened, StateError, StateWriter};
use poorwill_store::{PartitionFingerprint, unchanged};

use crate::area::Fingerprints;
use crate::error::StateRefusal;
use crate::machine::{Machine, WakeVector};

/// Owner of the section that holds the fingerprints of the partitions beside the image.
const PARTITIONS: u32 = u32::from_le_bytes(*b"GRDS");

/// Version of that section.
const VERSION: u16 = 1;

/// Owner and version of that section, for who tells which sections are read.
pub const PARTITIONS_SECTION: (u32, u16) = (PARTITIONS, VERSION);

/// Writes down the machine's state, and the fingerprints of the partitions that its OS
/// knows.
///
/// # Errors
///
/// [`StateError::NoRoom`].
// Its frame is gone before the save needs the stack.
#[inline(never)]
pub(crate) fn capture<M: Machine>(
    machine: &M,
    vector: WakeVector,
    fingerprints: &[PartitionFingerprint],
    into: &mut StateWriter<'_>,
) -> Result<(), StateError> {
    machine.capture(vector, into)?;
    if !fingerprints.is_empty() {
        into.section(PARTITIONS, 0, VERSION, fingerprints)?;
    }
    Ok(())
}

/// Reads the state of an image, all of it, before anything is touched; the partitions
/// must be as its OS knows them, `fingerprints` being what they are now.
///
/// # Errors
///
/// [`StateRefusal`].
// Likewise before the load does.
#[inline(never)]
pub(crate) fn read<'a, M: Machine>(
    machine: &M,
    image: &Opened<'a>,
    fingerprints: Fingerprints<'_>,
) -> Result<M::State<'a>, StateRefusal> {
    let mut sections = image.state()?;
    let then = match sections.take(PARTITIONS, 0) {
        Some(section) => section.read::<[PartitionFingerprint]>(VERSION)?,
        None => &[],
    };
    let state = machine.read_state(&mut sections)?;
    if let Some(section) = sections.left().first() {
        return Err(StateRefusal::Unknown {
            owner: section.owner,
            number: section.number,
        });
    }
    if !then.is_empty() {
        unchanged(then, fingerprints.map_err(StateRefusal::Partitions)?)?;
    }
    Ok(state)
}
