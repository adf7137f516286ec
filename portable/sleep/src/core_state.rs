use poorwill_image::StateSections;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::StateRefusal;
use crate::machine::WakeVector;

/// The time is not known: the machine has no clock that runs without power.
const NO_TIME: u64 = 0;

/// [`Core::deadline`] where no timer is set, or where the OS keeps it.
const NO_DEADLINE: u64 = u64::MAX;

/// What an image has of a machine that is needed to go on at all
/// (docs/image-format.md, "State").
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Core {
    hart: u64,
    address: u64,
    argument: u64,
    ticks: u64,
    now_ns: u64,
    deadline: u64,
}

/// A moment, by the clocks of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Ticks of its counter.
    pub ticks: u64,
    /// Nanoseconds since the Unix epoch; `None` without a clock that runs while the
    /// power is off.
    pub now_ns: Option<u64>,
}

impl Core {
    /// The hart `hart` sleeps at that moment, and goes on at `vector`. Its OS's timer
    /// rings at `deadline`, in ticks, where the machine keeps it and it is set.
    #[must_use]
    pub fn new(hart: u64, vector: WakeVector, at: Moment, deadline: Option<u64>) -> Self {
        Core {
            hart,
            address: vector.address,
            argument: vector.argument,
            ticks: at.ticks,
            now_ns: at.now_ns.unwrap_or(NO_TIME),
            deadline: deadline.unwrap_or(NO_DEADLINE),
        }
    }

    /// The hart that slept, and wakes.
    #[must_use]
    pub fn hart(&self) -> u64 {
        self.hart
    }

    /// Where the OS goes on.
    #[must_use]
    pub fn vector(&self) -> WakeVector {
        WakeVector {
            address: self.address,
            argument: self.argument,
        }
    }

    /// When the OS's timer is to ring, in ticks; all ones when it is not.
    #[must_use]
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// The counter at `now_ns`: it advances while the power is off.
    /// Without a clock, or with a clock that was set back, it continues where it was.
    /// `ticks_in` converts nanoseconds.
    #[must_use]
    pub fn ticks_at(&self, now_ns: Option<u64>, ticks_in: impl FnOnce(u64) -> u64) -> u64 {
        let slept_ns = match (self.now_ns, now_ns) {
            (NO_TIME, _) | (_, None) => 0,
            (then, Some(now)) => now.saturating_sub(then),
        };
        self.ticks.saturating_add(ticks_in(slept_ns))
    }

    /// Takes it out of an image's state.
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
