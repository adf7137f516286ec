//! The state of this machine that a sleep or a cut keeps, and its part of the record.

use core::borrow::Borrow;

use arrayvec::ArrayVec;
use poorwill_devicetree::MAX_HARTS;
use poorwill_image::{SealedMemory, StateSections};
use poorwill_memory::{EntryPoint, MachineIdentity, Page, PhysRange};
use poorwill_sleep::NotKept;
use poorwill_sleep::cut::{CutMemory, Layout, Misfit, Place};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::record;
use super::sealed;
use crate::domain::kept::OfDomain;
use crate::domain::report::LogOfImage;
use crate::hart::{self, Hart, ThisHart};
use crate::platform::bus::Bus;
use crate::platform::console::AmidLine;
use crate::platform::generation_id::{Bytes, GenerationId};
use crate::platform::platform;
use poorwill_state::{HartStart, Keep, KeepValue, Saving, Section, Store, kept};

kept! {
    /// The state of this machine that no domain has, without its harts and PCI devices.
    struct Machine of _domain, MachineState;
    Record => head: HeadOfRecord = HeadOfRecord;
    Record => starts: Starts = Starts;
    Record => amid_line: AmidLine = AmidLine;
    Record => refused: SaveRefused = SaveRefused;
    Record => sealed: Sealed = Sealed;
    Record => generation: KeptId = KeptId;
    Image => log: LogOfImage = LogOfImage;
    Image | Record => bus: Bus = Bus::of(0);
}

kept! {
    /// The state of a machine with one domain.
    struct Lone of _domain, LoneState;
    Record => machine: Machine = MACHINE;
    Record => os: OfDomain = OfDomain::of(0);
}

pub(crate) const MACHINE: Machine = Machine::of(0);

pub(super) const LONE: Lone = Lone::of(0);

/// The memory of the device tree. A loader writes it again at each power-on.
///
/// # Safety
///
/// No hart runs the OS, and nothing else refers to that memory.
pub(super) unsafe fn loaded_memory(own: ThisHart) -> &'static mut [u8] {
    let tree = own.domain().next_stage.tree;
    let tree = tree.map_or(PhysRange::new(0, 0), |tree| tree.loaded);
    // SAFETY: the tree lies in memory of the OS, and the caller guarantees the rest.
    unsafe { crate::platform::loaded::tree(tree) }
}

/// The time of the cut, and the machine's identity.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    ticks: u64,
    /// Hashes of memory, harts, ISA and device tree.
    identity: [u64; 4],
}

pub(crate) struct HeadOfRecord;

impl HeadOfRecord {
    fn identity() -> [u64; 4] {
        let MachineIdentity {
            memory,
            harts,
            isa,
            device_tree,
        } = platform().identity;
        [memory, harts, isa, device_tree]
    }
}

impl KeepValue for HeadOfRecord {
    type Value = Head;
    const SECTION: Section = (u32::from_le_bytes(*b"CUTM"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<Head>>, NotKept> {
        Ok(Some(Head {
            ticks: platform().time.ticks(),
            identity: Self::identity(),
        }))
    }

    fn fits(&self, head: Option<&Head>) -> bool {
        head.is_some_and(|head| head.identity == Self::identity())
    }
}

/// The OS requested a save, and a power failure refused it. So its SUSP call fails after Go.
pub(crate) struct SaveRefused;

impl KeepValue for SaveRefused {
    type Value = [u8; 0];
    const SECTION: Section = (u32::from_le_bytes(*b"SUSP"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<[u8; 0]>>, NotKept> {
        Ok(sealed::is_refused().then_some([]))
    }
}

/// The section with the memory that a save has left sealed.
pub(crate) struct Sealed;

impl KeepValue for Sealed {
    type Value = SealedMemory;
    const SECTION: Section = (u32::from_le_bytes(*b"SEAL"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<SealedMemory>>, NotKept> {
        Ok(sealed::left())
    }

    fn put_back(&self, sealed: Option<&SealedMemory>) {
        sealed::remember(sealed.copied());
    }
}

/// The tasks of all harts, in the order of the list. Go gives them to the harts.
pub(crate) struct Starts;

impl KeepValue for Starts {
    type Value = [HartStart];
    const SECTION: Section = (u32::from_le_bytes(*b"HSMS"), 1);

    fn value(&self, saving: &Saving<'_>) -> Result<Option<impl Borrow<[HartStart]>>, NotKept> {
        let harts = hart::all().iter().enumerate();
        let starts = harts.map(|(place, hart)| start_of(place, hart, saving.vector));
        Ok(Some(starts.collect::<ArrayVec<_, MAX_HARTS>>()))
    }

    fn fits(&self, starts: Option<&[HartStart]>) -> bool {
        let ids = starts.into_iter().flatten().map(HartStart::id);
        ids.eq(hart::all().iter().map(Hart::id))
    }
}

/// The task of the hart at a place of the list.
fn start_of(place: usize, hart: &Hart, vector: Option<EntryPoint>) -> HartStart {
    let part =
        record().and_then(|record| record.line(Place::Part(Layout::hart(place))).read_part());
    let is_running = part.is_some_and(|(_, part)| part.bytes != 0);
    HartStart::new(hart.id(), is_running, vector, hart.pending_start())
}

/// Reads the part of the record, and checks that it fits this machine.
///
/// # Errors
///
/// [`Misfit`].
#[inline(never)]
pub(super) fn read(pages: &[Page], bytes: u64) -> Result<LoneState<'_>, Misfit> {
    const OTHER_MACHINE: u32 = HeadOfRecord::SECTION.0;
    const OTHER_HARTS: u32 = Starts::SECTION.0;
    let mut sections = StateSections::parse(pages, bytes)?;
    let state = LONE.check(Store::Record, &mut sections);
    let state = state.map_err(|error| match error.into() {
        Misfit::Section(OTHER_MACHINE) => Misfit::Machine,
        Misfit::Section(OTHER_HARTS) => Misfit::Harts,
        misfit => misfit,
    })?;
    match sections.left() {
        [] => Ok(state),
        [section, ..] => Err(Misfit::Unknown(section.owner)),
    }
}

impl LoneState<'_> {
    /// `time` at the cut.
    pub(super) fn ticks(&self) -> u64 {
        self.machine.head.map_or(0, |head| head.ticks)
    }
}

/// Keeps the generation ID across a cut: the OS then continues, and is not a copy. An OS that wakes
/// from an image finds a new ID.
pub(crate) struct KeptId;

impl KeepValue for KeptId {
    type Value = Bytes;
    const SECTION: Section = (u32::from_le_bytes(*b"GENI"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<Bytes>>, NotKept> {
        Ok(platform().generation_id.as_ref().map(GenerationId::bytes))
    }

    fn put_back(&self, bytes: Option<&Bytes>) {
        if let Some((id, bytes)) = platform().generation_id.as_ref().zip(bytes) {
            id.restore(bytes);
        }
    }
}
