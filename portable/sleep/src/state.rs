use poorwill_image::{ImageKind, Opened, StateWriter};
use poorwill_memory::EntryPoint;
use poorwill_store::{PartitionDigest, PartitionFingerprint, unchanged};

use crate::area::Fingerprints;
use crate::error::{NotKept, StateRefusal};
use crate::event::Event;
use crate::machine::{Domain, Machine, State};

/// Owner of the section with the fingerprints of the partitions beside the image.
const PARTITIONS: u32 = u32::from_le_bytes(*b"GRDS");

/// Version of that section.
const VERSION: u16 = 2;

/// The version without the partitions' contents.
const OLD_VERSION: u16 = 1;

/// Owner and versions of the section, for the manifest.
pub const PARTITIONS_SECTIONS: [(u32, u16); 2] = [(PARTITIONS, VERSION), (PARTITIONS, OLD_VERSION)];

/// Captures the machine's state, and the fingerprints of the partitions that its OS knows.
///
/// # Errors
///
/// [`NotKept`].
// Not inlined, so that this frame ends before the save needs the stack.
#[inline(never)]
pub(crate) fn capture<M: Machine>(
    machine: &M,
    vector: EntryPoint,
    fingerprints: &[PartitionFingerprint],
    into: &mut StateWriter<'_>,
) -> Result<(), NotKept> {
    machine.domain().capture(vector, into)?;
    if !fingerprints.is_empty() {
        into.section(PARTITIONS, 0, VERSION, fingerprints)?;
    }
    Ok(())
}

/// Reads all of an image's state, and checks it; restores nothing. The partitions must not have
/// changed; `fingerprints` are the current ones. Reports each partition that cannot be guarded, and
/// refuses a snapshot without a consent to it.
///
/// # Errors
///
/// [`StateRefusal`].
// Not inlined, so that this frame ends before the load needs the stack.
#[inline(never)]
pub(crate) fn read<'a, M: Machine>(
    machine: &M,
    image: &Opened<'a>,
    fingerprints: Fingerprints<'_>,
) -> Result<State<'a, M>, StateRefusal> {
    let mut sections = image.state()?;
    let (then, old_then): (&[PartitionFingerprint], &[PartitionDigest]) =
        match sections.take(PARTITIONS, 0) {
            Some(section) if section.version == OLD_VERSION => (&[], section.read(OLD_VERSION)?),
            Some(section) => (section.read(VERSION)?, &[]),
            None => (&[], &[]),
        };
    let state = machine.domain().check(&mut sections)?;
    if let Some(section) = sections.left().first() {
        return Err(StateRefusal::Unknown {
            owner: section.owner,
            number: section.number,
        });
    }
    let now: &[PartitionFingerprint] = match (then, old_then) {
        ([], []) => &[],
        _ => fingerprints.map_err(StateRefusal::Partitions)?,
    };
    let digests = then.iter().map(PartitionFingerprint::digest);
    unchanged(digests.chain(old_then), now)?;
    // The old version has no contents of partitions, so the current ones count.
    let is_known = |now: &&PartitionFingerprint| old_then.iter().any(|then| now.is_of(then));
    for partition in then.iter().chain(now.iter().filter(is_known)) {
        let Some(unguarded) = partition.unguarded() else {
            continue;
        };
        if image.header().kind == ImageKind::Snapshot && !partition.is_accepted() {
            return Err(StateRefusal::Unguarded(unguarded));
        }
        machine.say(&Event::UnguardedPartition(unguarded));
    }
    Ok(state)
}
