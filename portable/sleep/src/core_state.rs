use poorwill_image::StateSections;
use poorwill_memory::EntryPoint;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::StateRefusal;

/// The time of a machine without a clock that runs while the power is off.
const NO_TIME: u64 = 0;

/// The deadline if no timer is set, or if the OS keeps its timer.
const NO_DEADLINE: u64 = u64::MAX;

/// The part of an image without which the OS cannot continue (docs/image-format.md, "State").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Core {
    hart: u64,
    vector: EntryPoint,
    ticks: u64,
    now_ns: u64,
    deadline: u64,
}

/// A moment, in the times of a machine's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Ticks of the machine's counter.
    pub ticks: u64,
    /// Nanoseconds since the Unix epoch; `None` without a clock that runs while the
    /// power is off.
    pub now_ns: Option<u64>,
}

impl Core {
    /// Hart `hart` sleeps at this moment, and its OS continues at `vector`. `deadline` of the OS's
    /// timer is in ticks; `None` if it is not set or the OS keeps it.
    #[must_use]
    pub fn new(hart: u64, vector: EntryPoint, at: Moment, deadline: Option<u64>) -> Self {
        Core {
            hart,
            vector,
            ticks: at.ticks,
            now_ns: at.now_ns.unwrap_or(NO_TIME),
            deadline: deadline.unwrap_or(NO_DEADLINE),
        }
    }

    /// The hart that asked for the sleep; it also wakes the machine.
    #[must_use]
    pub fn hart(&self) -> u64 {
        self.hart
    }

    /// The address and argument at which the OS continues.
    #[must_use]
    pub fn vector(&self) -> EntryPoint {
        self.vector
    }

    /// The deadline of the OS's timer in ticks; all ones without one.
    #[must_use]
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// The counter at `now_ns`: it advances while the power is off. Without a clock, or with a
    /// clock that was set back, it continues from its old value. `ticks_in` converts nanoseconds.
    #[must_use]
    pub fn ticks_at(&self, now_ns: Option<u64>, ticks_in: impl FnOnce(u64) -> u64) -> u64 {
        let slept_ns = match (self.now_ns, now_ns) {
            (NO_TIME, _) | (_, None) => 0,
            (then, Some(now)) => now.saturating_sub(then),
        };
        self.ticks.saturating_add(ticks_in(slept_ns))
    }

    /// Takes the section out of an image's state.
    ///
    /// # Errors
    ///
    /// [`StateRefusal::NoCore`], [`StateRefusal::Section`].
    pub fn read(sections: &mut StateSections<'_>) -> Result<Self, StateRefusal> {
        let core = sections.take_payload::<Core>(Self::SECTION, 0)?;
        core.copied().ok_or(StateRefusal::NoCore)
    }

    /// Owner and version of its section of a machine's state.
    pub const SECTION: (u32, u16) = (u32::from_le_bytes(*b"CORE"), 1);
}
