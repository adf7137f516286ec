use arrayvec::ArrayVec;
use poorwill_memory::{MemoryMap, PhysRange};

use crate::harts::HartSet;

/// How many ranges of devices a domain may have.
pub const MAX_DEVICES: usize = 32;

/// How many ranges of flash a domain may have.
pub const MAX_FLASH: usize = 8;

/// A partition of the machine: what belongs to one OS, and what that OS may ask
/// for. What a caller of the SBI claims is checked by methods of it, which are in
/// the module of the claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its harts.
    pub harts: HartSet,
    /// Its memory.
    pub memory: MemoryMap,
    /// What of flash is its: it may execute there, as in its memory.
    pub flash: ArrayVec<PhysRange, MAX_FLASH>,
    /// The addresses of its devices; what machine mode keeps for itself is closed
    /// within them.
    pub devices: ArrayVec<PhysRange, MAX_DEVICES>,
    /// What runs first in it.
    pub next_stage: NextStage,
    /// What it may ask for.
    pub rights: Rights,
}

/// The first program of a domain, and the device tree that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextStage {
    /// Physical address of its first instruction.
    pub address: u64,
    /// Where the previous stage has loaded the device tree, with the room that it may grow
    /// into, as far as that is memory of the domain.
    pub tree: PhysRange,
    /// Where the tree is handed on, with that room: in its place, or in another one where
    /// there is no such room. `None`: there is none anywhere.
    pub handed_on: Option<PhysRange>,
}

/// What concerns the machine as a whole, and is not every domain's to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To reset the machine or to switch its power off (SBI 3.0, chapter 10).
    SystemReset,
    /// To put the machine to sleep (SBI 3.0, chapter 13). The domain that may is
    /// the power master.
    SystemSuspend,
}

/// The requests that a domain may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// [`Request::SystemReset`].
    pub system_reset: bool,
    /// [`Request::SystemSuspend`].
    pub system_suspend: bool,
}

impl Rights {
    /// Every request.
    pub const ALL: Rights = Rights {
        system_reset: true,
        system_suspend: true,
    };

    /// Whether the request is among them.
    #[must_use]
    pub fn allow(self, request: Request) -> bool {
        match request {
            Request::SystemReset => self.system_reset,
            Request::SystemSuspend => self.system_suspend,
        }
    }
}
