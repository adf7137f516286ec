//! A queue's two rings in the OS's memory.

use zerocopy::{FromBytes, IntoBytes};

use crate::device::Device;
use crate::{KeeperError, Machine};

/// A command: a submission queue entry.
pub(super) type Command = [u32; 16];
/// A completion queue entry.
pub(super) type Completion = [u32; 4];

const COMMAND_BYTES: u64 = size_of::<Command>() as u64;
const COMPLETION_BYTES: u64 = size_of::<Completion>() as u64;

/// The phase tag in the last word of a completion: set in the first pass through the ring
/// after the controller was enabled.
pub(super) const PHASE: u32 = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rings<'d, 'a, M> {
    device: &'d Device<'a, M>,
    /// The addresses of the commands and of the completions.
    pub(super) addresses: [u64; 2],
    pub(super) entries: [u32; 2],
}

/// The place of the controller's next completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) place: u32,
    pub(super) phase: u32,
    /// The controller has not filled the ring since it was enabled.
    is_first_pass: bool,
}

/// The progress of a queue's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All commands are completed; this is their number.
    Completed(u32),
    Outstanding,
    /// There were more commands than the ring has places.
    Long,
}

impl<'d, 'a, M: Machine> Rings<'d, 'a, M> {
    pub(super) fn new(
        device: &'d Device<'a, M>,
        addresses: [u64; 2],
        entries: [u32; 2],
    ) -> Result<Self, KeeperError> {
        let rings = Rings {
            device,
            addresses,
            entries,
        };
        // The whole ring is OS memory if its last entries are.
        let [commands, completions] = entries.map(|entries| entries.saturating_sub(1));
        rings.command(commands)?;
        rings.completion(completions)?;
        Ok(rings)
    }

    pub(super) fn command_at(&self, place: u32) -> u64 {
        self.addresses[0].wrapping_add(u64::from(place) * COMMAND_BYTES)
    }

    pub(super) fn completion_at(&self, place: u32) -> u64 {
        self.addresses[1].wrapping_add(u64::from(place) * COMPLETION_BYTES)
    }

    pub(super) fn command(&self, place: u32) -> Result<Command, KeeperError> {
        self.read(self.command_at(place))
    }

    pub(super) fn completion(&self, place: u32) -> Result<Completion, KeeperError> {
        self.read(self.completion_at(place))
    }

    pub(super) fn read<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, KeeperError> {
        let mut entry = T::new_zeroed();
        let read = self.device.machine.read(address, entry.as_mut_bytes());
        read.map(|()| entry).ok_or(self.unkept())
    }

    /// The error for rings whose state cannot be saved.
    pub(super) fn unkept(&self) -> KeeperError {
        KeeperError::State(self.device.function)
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), KeeperError> {
        let written = self.device.machine.write(address, bytes);
        written.ok_or(self.unkept())
    }

    pub(super) fn next(&self) -> Result<Next, KeeperError> {
        let [_, entries] = self.entries;
        let phase = |place| Ok::<_, KeeperError>(self.completion(place)?[3] & PHASE);
        let first = phase(0)?;
        let mut place = 1;
        while place < entries && phase(place)? == first {
            place += 1;
        }
        let (place, phase) = if place == entries {
            (0, first ^ PHASE)
        } else {
            (place, first)
        };
        // Drivers clear the ring before they enable a controller or create a queue.
        let is_clear = |place| Ok::<_, KeeperError>(self.completion(place)? == [0; 4]);
        let is_first_pass = phase == PHASE && is_clear(place)? && is_clear(entries - 1)?;
        Ok(Next {
            place,
            phase,
            is_first_pass,
        })
    }

    /// The place after the last command that the controller had taken at its last
    /// completion; 0: no completion.
    pub(super) fn head(&self, next: Next) -> Result<u32, KeeperError> {
        if next.is_first_pass && next.place == 0 {
            return Ok(0);
        }
        let [commands, completions] = self.entries;
        let last = (next.place + completions - 1) % completions;
        Ok((self.completion(last)?[2] & 0xffff) % commands)
    }

    pub(super) fn progress(&self) -> Result<Progress, KeeperError> {
        let next = self.next()?;
        Ok(if !next.is_first_pass {
            Progress::Long
        } else if self.head(next)? == next.place {
            Progress::Completed(next.place)
        } else {
            Progress::Outstanding
        })
    }
}
