use poorwill_image::{ImageKind, Opened, StateError, StateSections, StateWriter};
use poorwill_memory::EntryPoint;
use poorwill_store::{DiskChanged, PartitionDigest, PartitionFingerprint, unchanged};

use crate::area::Partitions;
use crate::error::{AreaError, NotKept, StateRefusal};
use crate::event::Event;
use crate::machine::{Domain, Machine, State};
use crate::plan::Plan;

/// Owner of the section with the fingerprints of the partitions beside the image.
const PARTITIONS: u32 = u32::from_le_bytes(*b"GRDS");

/// Version of that section.
const VERSION: u16 = 3;

/// The version in which a disk is a position in the device's list.
const BY_POSITION: u16 = 2;

/// The version that also lacks the partitions' contents.
const WITHOUT_CONTENTS: u16 = 1;

/// Owner and versions of the section, for the manifest.
pub const PARTITIONS_SECTIONS: [(u32, u16); 3] = [
    (PARTITIONS, VERSION),
    (PARTITIONS, BY_POSITION),
    (PARTITIONS, WITHOUT_CONTENTS),
];

/// Captures a domain's state, the machine's for the first image of a sleep, and the fingerprints of
/// the partitions that the OS knows.
///
/// # Errors
///
/// [`NotKept`].
// Not inlined, so that this frame ends before the save needs the stack.
#[inline(never)]
pub(crate) fn capture<M: Machine>(
    machine: &M,
    domain: &M::Domain,
    vector: EntryPoint,
    plan: &Plan<'_, '_>,
    into: &mut StateWriter<'_>,
) -> Result<(), NotKept> {
    domain.capture(vector, plan.at, into)?;
    if plan.is_first {
        machine.capture(into)?;
    }
    if !plan.fingerprints.is_empty() {
        into.section(PARTITIONS, 0, VERSION, plan.fingerprints)?;
    }
    Ok(())
}

/// Reads all of an image's state, and checks it; restores nothing. The first image of a sleep has
/// the machine's state. The partitions must not have changed; `fingerprints` are the current ones.
/// Reports each partition that cannot be guarded, and refuses a snapshot without a consent to it.
///
/// # Errors
///
/// [`StateRefusal`].
// Not inlined, so that this frame ends before the load needs the stack.
#[inline(never)]
pub(crate) fn read<'a, M: Machine>(
    machine: &M,
    domain: &M::Domain,
    image: &Opened<'a>,
    is_first: bool,
    fingerprints: Result<&Partitions, AreaError>,
) -> Result<State<'a, M>, StateRefusal> {
    let mut sections = image.state()?;
    let then = Guarded::take(&mut sections)?;
    let state = domain.check(&mut sections)?;
    let of_machine = match is_first {
        true => Some(machine.check(&mut sections)?),
        false => None,
    };
    let state = (state, of_machine);
    if let Some(section) = sections.left().first() {
        return Err(StateRefusal::Unknown {
            owner: section.owner,
            number: section.number,
        });
    }
    if then.is_none() {
        return Ok(state);
    }
    let now = fingerprints.map_err(StateRefusal::Partitions)?;
    for digest in then.digests() {
        then.find(digest, now)?;
    }
    let accept = |partition: &PartitionFingerprint| {
        let Some(unguarded) = partition.unguarded() else {
            return Ok(());
        };
        if image.header().kind == ImageKind::Snapshot && !partition.is_accepted() {
            return Err(StateRefusal::Unguarded(unguarded));
        }
        machine.say(&Event::UnguardedPartition(unguarded));
        Ok(())
    };
    then.fingerprints.iter().try_for_each(accept)?;
    // The oldest version has no contents of partitions, so the current ones count.
    for digest in then.without_contents {
        accept(then.find(digest, now)?)?;
    }
    Ok(state)
}

/// The partitions that an image guards: those with contents, and those of an image of the oldest
/// version.
#[derive(Clone, Copy, Debug)]
struct Guarded<'s> {
    fingerprints: &'s [PartitionFingerprint],
    without_contents: &'s [PartitionDigest],
    /// A disk is a position in the device's list.
    is_by_position: bool,
}

impl<'s> Guarded<'s> {
    fn take(sections: &mut StateSections<'s>) -> Result<Self, StateError> {
        let mut guarded = Guarded {
            fingerprints: &[],
            without_contents: &[],
            is_by_position: false,
        };
        let Some(section) = sections.take(PARTITIONS, 0) else {
            return Ok(guarded);
        };
        guarded.is_by_position = section.version != VERSION;
        match section.version {
            WITHOUT_CONTENTS => guarded.without_contents = section.read(WITHOUT_CONTENTS)?,
            BY_POSITION => guarded.fingerprints = section.read(BY_POSITION)?,
            _ => guarded.fingerprints = section.read(VERSION)?,
        }
        Ok(guarded)
    }

    fn is_none(&self) -> bool {
        self.fingerprints.is_empty() && self.without_contents.is_empty()
    }

    fn digests(&self) -> impl Iterator<Item = &'s PartitionDigest> + use<'s> {
        let fingerprints = self.fingerprints.iter();
        let digests = fingerprints.map(PartitionFingerprint::digest);
        digests.chain(self.without_contents)
    }

    /// The partition of a digest, if it is unchanged.
    fn find<'n>(
        &self,
        digest: &PartitionDigest,
        now: &'n Partitions,
    ) -> Result<&'n PartitionFingerprint, DiskChanged> {
        let digest = match self.is_by_position {
            true => digest.numbered(&now.disks)?,
            false => *digest,
        };
        unchanged(&digest, &now.fingerprints)
    }
}
