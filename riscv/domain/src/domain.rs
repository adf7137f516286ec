use arrayvec::ArrayVec;
use poorwill_memory::{MemoryMap, PhysRange};

use crate::harts::HartSet;

/// Maximum number of ranges of devices in a domain.
pub const MAX_DEVICES: usize = 48;

/// Maximum number of ranges of memory that the machine's device tree shows to a domain, but that
/// are not in its regions.
pub const MAX_FOREIGN: usize = 16;

/// Maximum number of ranges of flash in a domain.
pub const MAX_FLASH: usize = 8;

/// A partition of the machine: the resources of one OS, and its rights. The methods that check SBI
/// callers' claims are in module `claims`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its harts.
    pub harts: HartSet,
    /// Its memory.
    pub memory: MemoryMap,
    /// Its flash: the OS may execute there, as in its memory.
    pub flash: ArrayVec<PhysRange, MAX_FLASH>,
    /// Addresses of its devices. Machine mode's own ranges within them are closed.
    pub devices: ArrayVec<PhysRange, MAX_DEVICES>,
    /// Registers of its devices: not executable, unlike `devices`.
    pub registers: ArrayVec<PhysRange, MAX_DEVICES>,
    /// Memory outside its regions, if its device tree is the machine's: the tree shows more than
    /// the domain has. `None`: the tree is its own, or it has the whole machine.
    pub foreign: Option<ArrayVec<PhysRange, MAX_FOREIGN>>,
    /// The program that starts first.
    pub next_stage: NextStage,
    /// Requests that it may make.
    pub rights: Rights,
}

/// The first program of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextStage {
    /// Physical address of its first instruction.
    pub address: u64,
    /// Its second argument, if it has no device tree.
    pub argument: u64,
    /// Its device tree.
    pub tree: Option<StageTree>,
}

/// The device tree of a next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTree {
    /// The device tree as the previous stage loaded it.
    pub blob: PhysRange,
    /// The same with room to grow, as far as that is memory of the domain.
    pub loaded: PhysRange,
    /// The final device tree, with room to grow: in place, or at another address if there is no
    /// room. `None`: there is no room in the domain's memory.
    pub handed_on: Option<PhysRange>,
}

/// A request that affects the whole machine, so that not every domain may make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To reset the machine or to switch its power off (SBI 3.0, chapter 10).
    SystemReset,
    /// To put the machine to sleep (SBI 3.0, chapter 13). The domain with this right is the power
    /// master.
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

    /// Returns whether these rights include the request.
    #[must_use]
    pub fn allow(self, request: Request) -> bool {
        match request {
            Request::SystemReset => self.system_reset,
            Request::SystemSuspend => self.system_suspend,
        }
    }
}
