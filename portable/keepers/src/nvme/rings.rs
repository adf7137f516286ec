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

/// The phase tag of a completion, in its last word: that of the first ones since the
/// controller was enabled.
pub(super) const PHASE: u32 = 1 << 16;

/// The rings of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rings<'d, 'a, M> {
    device: &'d Device<'a, M>,
    /// Their addresses: commands, and completions.
    pub(super) addresses: [u64; 2],
    /// How many entries each has.
    pub(super) entries: [u32; 2],
}

/// Where the controller's next completion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) place: u32,
    /// Its phase tag.
    pub(super) phase: u32,
    /// Since it was enabled it has not filled the ring.
    is_first_pass: bool,
}

/// What has become of a queue's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All are completed, and were so many.
    Completed(u32),
    /// Some are not.
    Outstanding,
    /// They were more than the ring has room for.
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
        // Whether all of it is memory is found at its ends.
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

    /// Reads memory of the driver's.
    pub(super) fn read<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, KeeperError> {
        let mut entry = T::new_zeroed();
        let read = self.device.machine.read(address, entry.as_mut_bytes());
        read.map(|()| entry).ok_or(self.unkept())
    }

    /// The error that they are in no state that is kept.
    pub(super) fn unkept(&self) -> KeeperError {
        KeeperError::State(self.device.function)
    }

    /// Writes memory of the driver's.
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
        // Drivers clear the ring before they enable a controller, or create the queue.
        let is_clear = |place| Ok::<_, KeeperError>(self.completion(place)? == [0; 4]);
        let is_first_pass = phase == PHASE && is_clear(place)? && is_clear(entries - 1)?;
        Ok(Next {
            place,
            phase,
            is_first_pass,
        })
    }

    /// The place behind the last command that the controller had taken when it completed
    /// one; 0 where it has completed none.
    pub(super) fn head(&self, next: Next) -> Result<u32, KeeperError> {
        if next.is_first_pass && next.place == 0 {
            return Ok(0);
        }
        let [commands, completions] = self.entries;
        let last = (next.place + completions - 1) % completions;
        Ok((self.completion(last)?[2] & 0xffff) % commands)
    }

    /// What has become of its commands.
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
