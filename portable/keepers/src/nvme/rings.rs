//! What an admin queue's rings in the OS's memory tell of its driver.

use arrayvec::ArrayVec;
use zerocopy::{FromBytes, IntoBytes};

use crate::device::Device;
use crate::{KeeperError, Machine};

/// A command: a submission queue entry.
pub(super) type Command = [u32; 16];
/// A completion queue entry.
pub(super) type Completion = [u32; 4];

const COMMAND_BYTES: u64 = size_of::<Command>() as u64;
const COMPLETION_BYTES: u64 = size_of::<Completion>() as u64;

/// Entries of a ring that is kept at most.
pub(super) const MAX_ENTRIES: usize = 64;

/// Words of both rings then.
pub(super) const MAX_RING_WORDS: usize =
    MAX_ENTRIES * (size_of::<Command>() + size_of::<Completion>()) / size_of::<u32>();

/// Opcodes of admin commands.
pub(super) mod opcode {
    pub(crate) const CREATE_SUBMISSIONS: u32 = 0x01;
    pub(crate) const CREATE_COMPLETIONS: u32 = 0x05;
    pub(crate) const SET_FEATURES: u32 = 0x09;
    pub(crate) const GET_FEATURES: u32 = 0x0a;
    pub(crate) const EVENT_REQUEST: u32 = 0x0c;
    pub(crate) const DOORBELL_BUFFERS: u32 = 0x7c;
}

/// The phase tag of a completion, in its last word.
const PHASE: u32 = 1 << 16;

/// What an event tells: "persistent internal error" (figure 147), of the error log's page.
const PERSISTENT_ERROR: u32 = 0x01 << 16 | 0x03 << 8;

/// How far the driver of an enabled controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has the controller serve the OS.
    Serving {
        /// The identifier by which it knows its request for events.
        request: u16,
    },
    /// It sets it up, and waits for nothing.
    SettingUp {
        /// Commands that the controller has executed since it was enabled.
        commands: u32,
    },
    /// The same, but for commands that are not completed.
    Busy,
}

/// The rings of a controller's admin queue.
#[derive(Debug)]
pub(super) struct Rings<'d, 'a, M> {
    device: &'d Device<'a, M>,
    submissions: u64,
    completions: u64,
    /// How many entries each has.
    pub(super) commands: u32,
    pub(super) results: u32,
}

/// Where the controller's next completion goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    place: u32,
    /// Its phase tag.
    phase: u32,
    /// Since it was enabled it has not filled the ring.
    is_first_pass: bool,
}

impl<'d, 'a, M: Machine> Rings<'d, 'a, M> {
    /// The rings at their addresses, with so many commands and completions.
    pub(super) fn new(
        device: &'d Device<'a, M>,
        [submissions, completions]: [u64; 2],
        [commands, results]: [u32; 2],
    ) -> Result<Self, KeeperError> {
        let rings = Rings {
            device,
            submissions,
            completions,
            commands,
            results,
        };
        // That all of it is memory is found once and for all.
        rings.completion(rings.results - 1)?;
        rings.command(rings.commands - 1)?;
        Ok(rings)
    }

    pub(super) fn command_at(&self, place: u32) -> u64 {
        self.submissions
            .wrapping_add(u64::from(place) * COMMAND_BYTES)
    }

    pub(super) fn completion_at(&self, place: u32) -> u64 {
        self.completions
            .wrapping_add(u64::from(place) * COMPLETION_BYTES)
    }

    pub(super) fn command(&self, place: u32) -> Result<Command, KeeperError> {
        self.read(self.command_at(place))
    }

    pub(super) fn completion(&self, place: u32) -> Result<Completion, KeeperError> {
        self.read(self.completion_at(place))
    }

    fn read<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, KeeperError> {
        let mut entry = T::new_zeroed();
        let unreachable = KeeperError::State(self.device.function);
        let read = self.device.machine.read(address, entry.as_mut_bytes());
        read.map(|()| entry).ok_or(unreachable)
    }

    fn next(&self) -> Result<Next, KeeperError> {
        let phase = |place| Ok::<_, KeeperError>(self.completion(place)?[3] & PHASE);
        let first = phase(0)?;
        let mut place = 0;
        while place < self.results && phase(place)? == first {
            place += 1;
        }
        let (place, phase) = if place == self.results {
            (0, first ^ PHASE)
        } else {
            (place, first)
        };
        // Drivers clear the ring before they enable a controller.
        let mut is_first_pass = phase == PHASE;
        for place in place..self.results {
            is_first_pass &= self.completion(place)? == [0; 4];
        }
        Ok(Next {
            place,
            phase,
            is_first_pass,
        })
    }

    /// The place behind the last command that the controller had taken when it completed
    /// one; 0 where it has completed none.
    fn head(&self, next: Next) -> Result<u32, KeeperError> {
        if next.is_first_pass && next.place == 0 {
            return Ok(0);
        }
        let last = (next.place + self.results - 1) % self.results;
        Ok((self.completion(last)?[2] & 0xffff) % self.commands)
    }

    /// How far the driver is. In between, commands are completed: whoever wants to be sure
    /// looks twice.
    pub(super) fn look(&self) -> Result<Found, KeeperError> {
        let next = self.next()?;
        let head = self.head(next)?;
        // Of an earlier life of the controller there are commands behind the head.
        let places = if next.is_first_pass {
            head
        } else {
            self.commands
        };
        for back in 1..=places {
            let [first, ..] = self.command((head + self.commands - back) % self.commands)?;
            if first & 0xff == opcode::EVENT_REQUEST {
                return Ok(Found::Serving {
                    request: identifier(first),
                });
            }
        }
        if !next.is_first_pass || self.serves_io(head)? {
            return Ok(Found::Serving {
                request: self.usual_request(),
            });
        }
        let has_room = self.commands.max(self.results) as usize <= MAX_ENTRIES;
        if head != next.place || !has_room {
            return Ok(Found::Busy);
        }
        Ok(Found::SettingUp { commands: head })
    }

    /// The identifier of Linux's request, which is long overwritten: one behind those of
    /// other commands.
    #[allow(clippy::cast_possible_truncation, reason = "at most 4095")]
    fn usual_request(&self) -> u16 {
        (self.commands - 1) as u16
    }

    /// Whether any I/O queue that the first commands made has been used.
    fn serves_io(&self, commands: u32) -> Result<bool, KeeperError> {
        for place in 0..commands {
            let command = self.command(place)?;
            if command[0] & 0xff == opcode::CREATE_COMPLETIONS {
                let address = u64::from(command[7]) << 32 | u64::from(command[6]);
                let first: Completion = self.read(address)?;
                if first[3] & PHASE != 0 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Appends all entries, command after command, then the completions:
    /// [`MAX_RING_WORDS`] at most, where they are kept.
    pub(super) fn append_to<const N: usize>(
        &self,
        words: &mut ArrayVec<u32, N>,
    ) -> Result<(), KeeperError> {
        for place in 0..self.commands {
            words.extend(self.command(place)?);
        }
        for place in 0..self.results {
            words.extend(self.completion(place)?);
        }
        Ok(())
    }

    /// The completion of the request for events, and the address at which it goes.
    pub(super) fn event(&self, request: u16) -> Result<(u64, Completion), KeeperError> {
        let next = self.next()?;
        let head = self.head(next)?;
        let completion = [PERSISTENT_ERROR, 0, head, next.phase | u32::from(request)];
        Ok((self.completion_at(next.place), completion))
    }
}

/// A command's identifier.
#[allow(clippy::cast_possible_truncation, reason = "a field of the word")]
fn identifier(first: u32) -> u16 {
    (first >> 16) as u16
}
