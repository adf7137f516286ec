//! A controller that its driver sets up is set up as far again.

use zerocopy::IntoBytes;

use super::registers::{CAP, CC, CSTS, CSTS_CFS, CSTS_RDY, DOORBELL, read64};
use super::rings::{Command, Completion, Rings, opcode};
use super::state::Kept;
use crate::device::Device;
use crate::machine::wait_until;
use crate::{KeeperError, Machine, Window};

/// How long commands may take, in microseconds.
const PATIENCE_US: u64 = 1_000_000;

/// The commands that are executed again, in the OS's own rings.
pub(super) struct Replay<'d, 'a, 'k, M> {
    device: &'d Device<'a, M>,
    rings: Rings<'d, 'a, M>,
    kept: &'k Kept<'k>,
}

impl<'d, 'a, 'k, M: Machine> Replay<'d, 'a, 'k, M> {
    pub(super) fn new(device: &'d Device<'a, M>, kept: &'k Kept<'k>) -> Result<Self, KeeperError> {
        Ok(Replay {
            device,
            rings: kept.state.rings(device)?,
            kept,
        })
    }

    /// Puts the commands into the ring, with no completion in the other.
    pub(super) fn prepare(&self) -> Result<(), KeeperError> {
        let count = self.kept.state.commands as usize;
        for (place, command) in (0..).zip(&self.kept.commands[..count]) {
            self.write_command(place, &again(command))?;
        }
        let completions = (0..).zip(self.kept.completions);
        for (place, _) in completions {
            self.write_completion(place, &[0; 4])?;
        }
        Ok(())
    }

    /// Has the controller, which is enabled, execute them, and puts the rings back as the
    /// driver knows them.
    pub(super) fn run(&self, registers: &M::Window) -> Result<(), KeeperError> {
        let count = self.kept.state.commands;
        if count > 0 {
            registers.write32(DOORBELL, count);
            let machine = self.device.machine;
            let until = machine.microseconds() + PATIENCE_US;
            let last = |found: Completion| found[3] & PHASE != 0;
            let is_done = || self.rings.completion(count - 1).is_ok_and(last);
            if !wait_until(machine, until, is_done) {
                return Err(KeeperError::NotDone(self.device.function));
            }
        }
        for (place, command) in (0..).zip(self.kept.commands) {
            self.write_command(place, command)?;
        }
        for (place, completion) in (0..).zip(self.kept.completions) {
            self.write_completion(place, completion)?;
        }
        Ok(())
    }

    fn write_command(&self, place: u32, command: &Command) -> Result<(), KeeperError> {
        self.write(self.rings.command_at(place), command.as_bytes())
    }

    fn write_completion(&self, place: u32, completion: &Completion) -> Result<(), KeeperError> {
        self.write(self.rings.completion_at(place), completion.as_bytes())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), KeeperError> {
        let written = self.device.machine.write(address, bytes);
        written.ok_or(KeeperError::State(self.device.function))
    }
}

/// The phase tag of what a controller completes when it has just been enabled.
const PHASE: u32 = 1 << 16;

/// Enables a controller.
pub(super) fn enable<M: Machine>(
    device: &Device<'_, M>,
    registers: &M::Window,
    configuration: u32,
) -> Result<(), KeeperError> {
    /// What the unit of CAP.TO is, in microseconds.
    const UNIT_US: u64 = 500_000;
    registers.write32(CC, configuration);
    let machine = device.machine;
    let units = (read64(registers, CAP) >> 24 & 0xff).max(1);
    let until = machine.microseconds() + units * UNIT_US;
    let is_ready = || registers.read32(CSTS) & (CSTS_RDY | CSTS_CFS) == CSTS_RDY;
    if wait_until(machine, until, is_ready) {
        Ok(())
    } else {
        Err(KeeperError::NotDone(device.function))
    }
}

/// The features whose values are in the command, or in memory that stays the controller's
/// (figure 317); for others the data is long something else.
const FEATURES: [u32; 12] = [
    0x01, 0x02, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0d, 0x10,
];

/// What is executed for a command that was: itself, where it made the controller what it
/// is, and one that does nothing for all others. Where those put their answers is memory of
/// somebody else's.
fn again(command: &Command) -> Command {
    /// Tells how many queues there may be.
    const QUEUES: u32 = 0x07;
    let [first, ..] = *command;
    let is_kept = match first & 0xff {
        opcode::CREATE_SUBMISSIONS | opcode::CREATE_COMPLETIONS | opcode::DOORBELL_BUFFERS => true,
        opcode::SET_FEATURES => FEATURES.contains(&(command[10] & 0xff)),
        _ => false,
    };
    if is_kept {
        return *command;
    }
    let mut nothing = [0; 16];
    nothing[0] = first & !0xffff | opcode::GET_FEATURES;
    nothing[10] = QUEUES;
    nothing
}
