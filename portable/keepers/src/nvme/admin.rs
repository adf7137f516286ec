//! Finds out how far a driver has come, from the rings of the admin queue.

use super::rings::{Command, Completion, Progress, Rings};
use crate::device::Device;
use crate::interrupts::Interrupts;
use crate::{KeeperError, Machine};

pub(super) mod opcode {
    pub(crate) const CREATE_SUBMISSIONS: u32 = 0x01;
    pub(crate) const CREATE_COMPLETIONS: u32 = 0x05;
    pub(crate) const SET_FEATURES: u32 = 0x09;
    pub(crate) const EVENT_REQUEST: u32 = 0x0c;
    pub(crate) const KEEP_ALIVE: u32 = 0x18;
    pub(crate) const DOORBELL_BUFFERS: u32 = 0x7c;
}

/// Event "persistent internal error" (figure 147), with the error log's page.
const PERSISTENT_ERROR: u32 = 0x01 << 16 | 0x03 << 8;

/// The progress of an enabled controller's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The controller serves the OS.
    Serving {
        /// The identifier of the driver's pending event request.
        request: u16,
    },
    /// The driver sets the controller up, and has not yet requested events.
    SettingUp {
        /// The number of commands executed since the controller was enabled.
        commands: u32,
        /// The number of commands in its I/O queues.
        io: u32,
    },
    /// As [`SettingUp`](Self::SettingUp), with incomplete commands.
    Busy,
}

/// An I/O queue that the driver has created.
pub(super) struct IoQueue<'d, 'a, M> {
    pub(super) id: u16,
    pub(super) rings: Rings<'d, 'a, M>,
    is_in_use: bool,
}

impl<M: Machine> IoQueue<'_, '_, M> {
    pub(super) fn progress(&self) -> Result<Progress, KeeperError> {
        if self.is_in_use {
            self.rings.progress()
        } else {
            Ok(Progress::Completed(0))
        }
    }
}

pub(super) struct AdminQueue<'d, 'a, M: Machine> {
    device: &'d Device<'a, M>,
    pub(super) rings: Rings<'d, 'a, M>,
    /// The function's interrupts. They do not change, because no driver runs.
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

    /// The driver's progress. The controller completes commands during this call, so the caller
    /// compares two results.
    pub(super) fn look(&self) -> Result<Found, KeeperError> {
        // Linux clears a queue's rings after it has passed them to the controller, and
        // requests its interrupts after that. Until then the rings have entries from
        // before the last reset.
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

    /// The identifier of the pending event request, if the ring still has it.
    fn event_request(&self, progress: Progress) -> Result<Option<u16>, KeeperError> {
        let next = self.rings.next()?;
        let head = self.rings.head(next)?;
        let [entries, _] = self.rings.entries;
        // Places at and after the head hold entries from before the last reset, unless
        // the ring has wrapped. It has wrapped if there are more commands than
        // completions.
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

    /// The identifier of Linux's event request, for a request that is overwritten in the ring.
    /// Linux uses the identifier after those of its other commands.
    #[allow(clippy::cast_possible_truncation, reason = "at most 4095")]
    fn usual_request(&self) -> u16 {
        let [entries, _] = self.rings.entries;
        (entries - 1) as u16
    }

    /// The I/O queues that the first `commands` commands have created.
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
                // The queue is not in use until another command follows the one that created it.
                let is_last = at + 1 == commands;
                return Ok(Some(IoQueue {
                    is_in_use: !is_last || self.interrupts.takes(low(other[11] >> 16)),
                    id: low(command[10]),
                    rings: Rings::new(self.device, addresses, entries)?,
                }));
            }
        }
        // The completion queue is unknown.
        Err(KeeperError::State(self.device.function))
    }

    /// The doorbell buffer in memory that the first `commands` commands have set, if any.
    pub(super) fn doorbell_buffer(&self, commands: u32) -> Result<Option<u64>, KeeperError> {
        for place in (0..commands).rev() {
            let command = self.rings.command(place)?;
            if command[0] & 0xff == opcode::DOORBELL_BUFFERS {
                return Ok(Some(address(&command)));
            }
        }
        Ok(None)
    }

    /// The completion of the event request, and its address.
    pub(super) fn event(&self, request: u16) -> Result<(u64, Completion), KeeperError> {
        let next = self.rings.next()?;
        let head = self.rings.head(next)?;
        let completion = [PERSISTENT_ERROR, 0, head, next.phase | u32::from(request)];
        Ok((self.rings.completion_at(next.place), completion))
    }
}

fn identifier(first: u32) -> u16 {
    low(first >> 16)
}

#[allow(clippy::cast_possible_truncation, reason = "a field of the word")]
fn low(word: u32) -> u16 {
    word as u16
}

/// The first address (PRP1) in a command.
fn address(command: &Command) -> u64 {
    u64::from(command[7]) << 32 | u64::from(command[6])
}
