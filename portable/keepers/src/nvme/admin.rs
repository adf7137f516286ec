//! What the admin queue's rings tell of a driver.

use super::rings::{Command, Completion, Progress, Rings};
use crate::device::Device;
use crate::interrupts::Interrupts;
use crate::{KeeperError, Machine};

/// Opcodes of admin commands.
pub(super) mod opcode {
    pub(crate) const CREATE_SUBMISSIONS: u32 = 0x01;
    pub(crate) const CREATE_COMPLETIONS: u32 = 0x05;
    pub(crate) const SET_FEATURES: u32 = 0x09;
    pub(crate) const EVENT_REQUEST: u32 = 0x0c;
    pub(crate) const KEEP_ALIVE: u32 = 0x18;
    pub(crate) const DOORBELL_BUFFERS: u32 = 0x7c;
}

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
    /// It sets it up, and waits for no event.
    SettingUp {
        /// Commands that the controller has executed since it was enabled.
        commands: u32,
        /// Commands of its I/O queues.
        io: u32,
    },
    /// The same, but for commands that are not completed.
    Busy,
}

/// An I/O queue that the driver has created.
pub(super) struct IoQueue<'d, 'a, M> {
    /// Its identifier.
    pub(super) id: u16,
    pub(super) rings: Rings<'d, 'a, M>,
    /// Its driver has it in use.
    is_in_use: bool,
}

impl<M: Machine> IoQueue<'_, '_, M> {
    /// What has become of its commands.
    pub(super) fn progress(&self) -> Result<Progress, KeeperError> {
        if self.is_in_use {
            self.rings.progress()
        } else {
            Ok(Progress::Completed(0))
        }
    }
}

/// The admin queue of a controller.
pub(super) struct AdminQueue<'d, 'a, M: Machine> {
    device: &'d Device<'a, M>,
    pub(super) rings: Rings<'d, 'a, M>,
    /// No driver runs: they stay as they are.
    interrupts: Interrupts<M::Window>,
}

impl<'d, 'a, M: Machine> AdminQueue<'d, 'a, M> {
    /// The queue that the registers ASQ, ACQ and AQA describe.
    pub(super) fn new(
        device: &'d Device<'a, M>,
        addresses: [u64; 2],
        sizes: u32,
    ) -> Result<Self, KeeperError> {
        let entries = [sizes & 0xfff, sizes >> 16 & 0xfff].map(|last| last + 1);
        Ok(AdminQueue {
            device,
            rings: Rings::new(device, addresses, entries)?,
            interrupts: Interrupts::of(device)?,
        })
    }

    /// How far the driver is. In between, commands are completed: whoever wants to be sure
    /// looks twice.
    pub(super) fn look(&self) -> Result<Found, KeeperError> {
        // Linux clears a queue's rings once the controller has it, and asks for its
        // interrupts then: what they hold before is of an earlier life.
        if !self.interrupts.are_taken() {
            return Ok(Found::SettingUp { commands: 0, io: 0 });
        }
        let progress = self.rings.progress()?;
        if let Some(request) = self.event_request(progress)? {
            return Ok(Found::Serving { request });
        }
        let usual = Found::Serving {
            request: self.usual_request(),
        };
        let commands = match progress {
            Progress::Completed(commands) => commands,
            Progress::Outstanding => return Ok(Found::Busy),
            Progress::Long => return Ok(usual),
        };
        let mut io = 0;
        for queue in self.io_queues(commands) {
            match queue?.progress()? {
                Progress::Completed(completed) => io += completed,
                Progress::Outstanding => return Ok(Found::Busy),
                Progress::Long => return Ok(usual),
            }
        }
        Ok(Found::SettingUp { commands, io })
    }

    /// The identifier of the pending request for events, if the ring still has it.
    fn event_request(&self, progress: Progress) -> Result<Option<u16>, KeeperError> {
        let next = self.rings.next()?;
        let head = self.rings.head(next)?;
        let [entries, _] = self.rings.entries;
        // Of an earlier life of the controller there are commands behind the head, unless
        // it has come around: there are more commands than completions.
        let has_come_around = progress == Progress::Long || head < next.place;
        let places = if has_come_around { entries } else { head };
        for back in 1..=places {
            let [first, ..] = self.rings.command((head + entries - back) % entries)?;
            if first & 0xff == opcode::EVENT_REQUEST {
                return Ok(Some(identifier(first)));
            }
        }
        Ok(None)
    }

    /// The identifier of Linux's request, which is long overwritten: one behind those of
    /// other commands.
    #[allow(clippy::cast_possible_truncation, reason = "at most 4095")]
    fn usual_request(&self) -> u16 {
        let [entries, _] = self.rings.entries;
        (entries - 1) as u16
    }

    /// The I/O queues that the first so many commands have created.
    pub(super) fn io_queues(
        &self,
        commands: u32,
    ) -> impl Iterator<Item = Result<IoQueue<'d, 'a, M>, KeeperError>> {
        (0..commands).filter_map(move |place| {
            self.rings
                .command(place)
                .and_then(|command| self.io_queue((place, &command), commands))
                .transpose()
        })
    }

    fn io_queue(
        &self,
        (at, command): (u32, &Command),
        commands: u32,
    ) -> Result<Option<IoQueue<'d, 'a, M>>, KeeperError> {
        if command[0] & 0xff != opcode::CREATE_SUBMISSIONS {
            return Ok(None);
        }
        let completions_id = command[11] >> 16;
        for place in 0..commands {
            let other = self.rings.command(place)?;
            let is_its = other[10] & 0xffff == completions_id;
            if other[0] & 0xff == opcode::CREATE_COMPLETIONS && is_its {
                let addresses = [command, &other].map(address);
                let entries = [command, &other].map(|command| (command[10] >> 16) + 1);
                // Before it is, there is no next command.
                let is_last = at + 1 == commands;
                return Ok(Some(IoQueue {
                    is_in_use: !is_last || self.interrupts.takes(low(other[11] >> 16)),
                    id: low(command[10]),
                    rings: Rings::new(self.device, addresses, entries)?,
                }));
            }
        }
        // Its completions are of no queue that is known.
        Err(KeeperError::State(self.device.function))
    }

    /// The buffer in memory that the first so many commands have the controller read
    /// doorbells from.
    pub(super) fn doorbell_buffer(&self, commands: u32) -> Result<Option<u64>, KeeperError> {
        for place in (0..commands).rev() {
            let command = self.rings.command(place)?;
            if command[0] & 0xff == opcode::DOORBELL_BUFFERS {
                return Ok(Some(address(&command)));
            }
        }
        Ok(None)
    }

    /// The completion of the request for events, and the address at which it goes.
    pub(super) fn event(&self, request: u16) -> Result<(u64, Completion), KeeperError> {
        let next = self.rings.next()?;
        let head = self.rings.head(next)?;
        let completion = [PERSISTENT_ERROR, 0, head, next.phase | u32::from(request)];
        Ok((self.rings.completion_at(next.place), completion))
    }
}

/// A command's identifier.
fn identifier(first: u32) -> u16 {
    low(first >> 16)
}

#[allow(clippy::cast_possible_truncation, reason = "a field of the word")]
fn low(word: u32) -> u16 {
    word as u16
}

/// The address that a command has as its first.
fn address(command: &Command) -> u64 {
    u64::from(command[7]) << 32 | u64::from(command[6])
}
