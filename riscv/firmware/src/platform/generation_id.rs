//! The generation ID: 16 random bytes that the OS can only read, and that change at every power-on.
//! An OS that finds new bytes has slept, or is a copy of another, and takes new randomness.

use core::cell::UnsafeCell;

use poorwill_devicetree::{self as devicetree, Machine, SpareSource};
use poorwill_memory::{PAGE_BYTES, PhysRange};

pub(crate) type Bytes = [u8; 16];

/// The bytes, in a page of their own, since the OS can read the whole page.
#[repr(C, align(4096))]
struct Place(UnsafeCell<Bytes>);

// SAFETY: only the hart that boots or wakes the machine writes it, and it is alone then.
unsafe impl Sync for Place {}

const _: () = assert!(size_of::<Place>() as u64 == PAGE_BYTES);

// This has the same address in every version of the firmware (firmware.ld).
#[unsafe(link_section = ".readable")]
static PLACE: Place = Place(UnsafeCell::new([0; 16]));

/// The machine's generation ID.
#[derive(Debug)]
pub(crate) struct GenerationId {
    pub(super) source: SpareSource,
}

impl GenerationId {
    /// The ID; `None` on a machine that cannot interrupt its OS for a new one.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let source = machine.spare_source?;
        Some(GenerationId { source })
    }

    /// The page of the firmware's memory that the OS may read.
    pub(crate) fn page(&self) -> PhysRange {
        PhysRange::new((&raw const PLACE).addr() as u64, PAGE_BYTES)
    }

    /// The node for the next stage's device tree.
    pub(crate) fn description(&self) -> devicetree::GenerationId {
        devicetree::GenerationId {
            address: self.page().start,
            source: self.source,
        }
    }

    /// The current bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        // SAFETY: nothing in the firmware refers to the place, and the OS does not write it.
        unsafe { PLACE.0.get().read_volatile() }
    }

    /// Writes these bytes. Call this while no OS runs.
    pub(crate) fn restore(&self, id: &Bytes) {
        // SAFETY: nothing in the firmware refers to the place, and the one hart that boots
        // or wakes the machine is alone with it.
        unsafe { PLACE.0.get().write_volatile(*id) };
    }
}
