use poorwill_image::StateSection;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::rings::{Command, Completion, Rings};
use crate::device::Device;
use crate::{KeeperError, Machine};

/// Of its sections.
pub(crate) const TAG: &[u8; 3] = b"NVM";

pub(super) const VERSION: u16 = 1;

/// What Go does with a controller.
pub(super) mod action {
    /// Nothing but its registers.
    pub(crate) const NONE: u32 = 0;
    /// The driver is told that it failed.
    pub(crate) const EVENT: u32 = 1;
    /// It is enabled, and executes commands again.
    pub(crate) const REPLAY: u32 = 2;
}

/// What a controller is put back by.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct State {
    pub(super) configuration: u32,
    pub(super) admin_sizes: u32,
    pub(super) submissions: u64,
    pub(super) completions: u64,
    pub(super) memory_buffer: u64,
    pub(super) masked: u32,
    /// One of [`action`].
    pub(super) action: u32,
    /// The event, if there is one: the completion, and the address at which it goes.
    pub(super) event: [u32; 4],
    pub(super) event_at: u64,
    /// The message that tells of it; none at 0.
    pub(super) message_address: u64,
    pub(super) message_data: u32,
    /// Commands that are executed again.
    pub(super) commands: u32,
}

/// What a section holds: the state, and where commands are executed again, the rings as they
/// were.
pub(super) struct Kept<'s> {
    pub(super) state: &'s State,
    pub(super) commands: &'s [Command],
    pub(super) completions: &'s [Completion],
}

impl<'s> Kept<'s> {
    /// Reads a section.
    pub(super) fn read(section: &StateSection<'s>) -> Result<Self, KeeperError> {
        let refused = || KeeperError::from(section.refuse());
        if section.version != VERSION {
            return Err(refused());
        }
        let (state, rings) = State::ref_from_prefix(section.payload).map_err(|_| refused())?;
        let [commands, completions] = if rings.is_empty() {
            [0, 0]
        } else {
            state.ring_entries()
        };
        let (commands, rings) =
            <[Command]>::ref_from_prefix_with_elems(rings, commands).map_err(|_| refused())?;
        let completions =
            <[Completion]>::ref_from_bytes_with_elems(rings, completions).map_err(|_| refused())?;
        let is_known = state.action <= action::REPLAY;
        let are_there = state.commands as usize <= commands.len();
        if !is_known || !are_there {
            return Err(refused());
        }
        Ok(Kept {
            state,
            commands,
            completions,
        })
    }
}

impl State {
    /// The rings of its admin queue.
    pub(super) fn rings<'d, 'a, M: Machine>(
        &self,
        device: &'d Device<'a, M>,
    ) -> Result<Rings<'d, 'a, M>, KeeperError> {
        let addresses = [self.submissions, self.completions];
        let entries = self.ring_entries().map(|entries| entries as u32);
        Rings::new(device, addresses, entries)
    }

    /// How many entries its rings have: commands, and completions.
    pub(super) fn ring_entries(&self) -> [usize; 2] {
        let entries = |field: u32| (field & 0xfff) as usize + 1;
        [entries(self.admin_sizes), entries(self.admin_sizes >> 16)]
    }
}

/// Checks a section that is to be put back.
pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    Kept::read(section).map(|_| ())
}
