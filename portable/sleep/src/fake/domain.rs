//! A domain of a fake machine.

extern crate std;

use core::cell::RefCell;
use core::fmt;
use std::string::{String, ToString};
use std::vec::Vec;

use poorwill_image::{StateSections, StateWriter};
use poorwill_memory::linux::{Free, FreeListError};
use poorwill_memory::{EntryPoint, MachineIdentity, OsMemory, PageMap};

use crate::{Domain, Moment, NotKept, StateRefusal, WakeReport};

/// What tells this machine from others.
pub const IDENTITY: MachineIdentity = MachineIdentity {
    memory: 1,
    harts: 2,
    isa: 3,
    device_tree: 4,
};

/// Owner of the one section of a domain's state.
const OWNER: u32 = 1;

/// A domain of a [`FakeMachine`](super::FakeMachine).
pub struct FakeDomain<'f> {
    /// Its name.
    pub name: String,
    /// What tells it from others.
    pub identity: MachineIdentity,
    /// Its state: kept by an image, and what a wake gives back.
    pub state: u64,
    /// A section that its images have besides: whose, of which version, and its payload.
    pub section: Option<(u32, u16, Vec<u8>)>,
    /// Called when the state is written down.
    pub on_capture: Option<&'f dyn Fn()>,
    /// Why it does not know what its OS has free.
    pub free_list: FreeListError,
    /// The hart that sleeps does not answer.
    pub is_late: bool,
    /// What the OS was told.
    pub told: RefCell<Option<String>>,
}

impl fmt::Debug for FakeDomain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeDomain").finish_non_exhaustive()
    }
}

impl FakeDomain<'_> {
    /// A domain of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        FakeDomain {
            name: name.to_string(),
            identity: IDENTITY,
            state: 0,
            section: None,
            on_capture: None,
            free_list: FreeListError::NoPageTables,
            is_late: false,
            told: RefCell::new(None),
        }
    }
}

impl Domain for FakeDomain<'_> {
    type State<'a> = u64;
    type Resume = u64;

    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> MachineIdentity {
        self.identity
    }

    fn free_pages(&self, _: &OsMemory, _: &mut PageMap<'_>) -> Result<Free, FreeListError> {
        Err(self.free_list)
    }

    fn capture(&self, _: EntryPoint, _: Moment, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        if self.is_late {
            return Err(NotKept::LateHart(0));
        }
        if let Some(on_capture) = self.on_capture {
            on_capture();
        }
        if let Some((owner, version, payload)) = &self.section {
            into.section(*owner, 0, *version, &payload[..])?;
        }
        into.section(OWNER, 0, 1, &self.state)?;
        Ok(())
    }

    fn check<'a>(&self, sections: &mut StateSections<'a>) -> Result<u64, StateRefusal> {
        let section = sections.take(OWNER, 0).ok_or(StateRefusal::NoCore)?;
        Ok(*section.read::<u64>(1)?)
    }

    fn restore(&self, state: u64, wake: &WakeReport) -> u64 {
        *self.told.borrow_mut() = Some(wake.to_string());
        state
    }
}
