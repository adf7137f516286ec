//! Repeats the setup of a controller whose driver was setting it up. Each queue gets the
//! same number of commands as before. Commands that changed the controller's setup are
//! repeated; others are replaced by ones without an effect.

use poorwill_image::SectionWriter;
use poorwill_medium::nvme::register::{CAP, CC, CSTS, CSTS_CFS, CSTS_RDY};
use zerocopy::IntoBytes;

use super::admin::{AdminQueue, opcode};
use super::registers::{buffered_doorbells, doorbell};
use super::rings::{Command, PHASE, Progress, Rings};
use super::state::{Kept, KeptQueue, QueueHead};
use crate::device::Device;
use crate::machine::wait_until;
use crate::{KeeperError, Machine, Window};

/// The longest time for the repeated commands, in microseconds.
const PATIENCE_US: u64 = 1_000_000;

/// Saves the admin queue after its first `commands` commands, and the queues that these
/// commands have created.
pub(super) fn save<M: Machine>(
    admin: &AdminQueue<'_, '_, M>,
    (commands, capabilities): (u32, u64),
    section: &mut SectionWriter<'_, '_>,
) -> Result<(), KeeperError> {
    let buffer = admin.doorbell_buffer(commands)?;
    let told_at = |id| match buffer {
        Some(buffer) => buffered_doorbells(id, capabilities).map(|at| buffer.wrapping_add(at)),
        None => [0; 2],
    };
    // The admin queue's doorbells are always registers.
    save_queue(&admin.rings, commands, (0, [0; 2]), section)?;
    for queue in admin.io_queues(commands) {
        let queue = queue?;
        let id = queue.id.into();
        let Progress::Completed(commands) = queue.progress()? else {
            return Err(queue.rings.unkept());
        };
        save_queue(&queue.rings, commands, (id, told_at(id)), section)?;
    }
    Ok(())
}

fn save_queue<M: Machine>(
    rings: &Rings<'_, '_, M>,
    commands: u32,
    (id, told_at): (u32, [u64; 2]),
    section: &mut SectionWriter<'_, '_>,
) -> Result<(), KeeperError> {
    let mut told = [0; 2];
    for (told, at) in told.iter_mut().zip(told_at).filter(|(_, at)| *at != 0) {
        *told = rings.read(at)?;
    }
    section.append(&QueueHead {
        addresses: rings.addresses.map(halves),
        entries: rings.entries,
        id,
        commands,
        told_at: told_at.map(halves),
        told,
    })?;
    for place in 0..commands {
        let [first, ..] = rings.command(place)?;
        section.append(&first)?;
    }
    for place in 0..commands {
        section.append(&rings.completion(place)?)?;
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
fn halves(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

pub(super) fn queues<'d, 'a, 's, M: Machine>(
    device: &'d Device<'a, M>,
    kept: &Kept<'s>,
) -> impl Iterator<Item = Result<Replay<'d, 'a, 's, M>, KeeperError>> {
    kept.queues.map(move |kept| {
        let addresses = kept.head.addresses.map(whole);
        let rings = Rings::new(device, addresses, kept.head.entries)?;
        Ok(Replay {
            device,
            rings,
            kept,
        })
    })
}

/// Checks that each queue is the admin queue or one that it has created. Otherwise its doorbell
/// would be another register, or another device's.
pub(super) fn check<M: Machine>(
    admin: &AdminQueue<'_, '_, M>,
    kept: &Kept<'_>,
) -> Result<(), KeeperError> {
    let mut commands = 0;
    for KeptQueue { head, .. } in kept.queues {
        if head.id == 0 {
            commands = head.commands;
            continue;
        }
        let mut is_created = false;
        for created in admin.io_queues(commands) {
            is_created |= u32::from(created?.id) == head.id;
        }
        if !is_created {
            return Err(admin.rings.unkept());
        }
    }
    Ok(())
}

/// A queue whose commands are repeated in the OS's own rings.
pub(super) struct Replay<'d, 'a, 's, M> {
    device: &'d Device<'a, M>,
    rings: Rings<'d, 'a, M>,
    kept: KeptQueue<'s>,
}

impl<M: Machine> Replay<'_, '_, '_, M> {
    fn is_admin(&self) -> bool {
        self.kept.head.id == 0
    }

    /// Puts the commands into the ring, and clears their completions.
    pub(super) fn prepare(&self) -> Result<(), KeeperError> {
        for (place, first) in (0..).zip(self.kept.firsts) {
            let mut command = self.rings.command(place)?;
            command[0] = *first;
            let first = if self.is_admin() {
                admin_again(&command)
            } else {
                without_effect(*first, FLUSH)
            };
            let address = self.rings.command_at(place);
            self.rings.write(address, first.as_bytes())?;
            let address = self.rings.completion_at(place);
            self.rings.write(address, [0_u32; 4].as_bytes())?;
        }
        Ok(())
    }

    /// Writes doorbell values to the doorbell buffer, if the driver uses one.
    fn tell(&self, told: [u32; 2]) -> Result<(), KeeperError> {
        let places = self.kept.head.told_at.map(whole).into_iter().zip(told);
        for (address, told) in places.filter(|(address, _)| *address != 0) {
            self.rings.write(address, told.as_bytes())?;
        }
        Ok(())
    }

    /// Makes the enabled controller execute the commands, then restores the rings'
    /// contents for the driver.
    pub(super) fn run(&self, capabilities: u64) -> Result<(), KeeperError> {
        let count = self.kept.head.commands;
        let told = self.kept.head.told;
        let bell = doorbell(self.kept.head.id, capabilities);
        let bell = self.device.window(0, bell, 4)?;
        if count > 0 {
            // The controller must see no completion as consumed yet, or it would find no room for
            // new ones.
            self.tell([count, 0])?;
            bell.write32(0, count);
            self.wait_for(count)?;
        }
        self.write_back()?;
        self.tell(told)?;
        let [tail, _] = told;
        if self.kept.head.told_at[0] != [0; 2] && tail != count {
            // The driver has written this doorbell only in memory.
            bell.write32(0, tail);
        }
        Ok(())
    }

    fn wait_for(&self, count: u32) -> Result<(), KeeperError> {
        let machine = self.device.machine;
        let until = machine.microseconds() + PATIENCE_US;
        let last = || self.rings.completion(count - 1);
        let is_done = || last().is_ok_and(|found| found[3] & PHASE != 0);
        if !wait_until(machine, until, is_done) {
            return Err(KeeperError::NotDone(self.device.function));
        }
        Ok(())
    }

    fn write_back(&self) -> Result<(), KeeperError> {
        for (place, first) in (0..).zip(self.kept.firsts) {
            let address = self.rings.command_at(place);
            self.rings.write(address, first.as_bytes())?;
        }
        for (place, completion) in (0..).zip(self.kept.completions) {
            let address = self.rings.completion_at(place);
            self.rings.write(address, completion.as_bytes())?;
        }
        Ok(())
    }
}

pub(super) fn enable<M: Machine>(
    device: &Device<'_, M>,
    registers: &M::Window,
    configuration: u32,
) -> Result<(), KeeperError> {
    /// The unit of CAP.TO, in microseconds.
    const UNIT_US: u64 = 500_000;
    registers.write32(CC, configuration);
    let machine = device.machine;
    let units = (registers.read64(CAP) >> 24 & 0xff).max(1);
    let until = machine.microseconds() + units * UNIT_US;
    let is_ready = || registers.read32(CSTS) & (CSTS_RDY | CSTS_CFS) == CSTS_RDY;
    if wait_until(machine, until, is_ready) {
        Ok(())
    } else {
        Err(KeeperError::NotDone(device.function))
    }
}

/// The I/O command that needs only its first two words, and changes nothing.
const FLUSH: u32 = 0x00;

/// The features whose values are in the command, or in memory that the controller keeps (figure
/// 317). The data of other features is lost.
const FEATURES: [u32; 12] = [
    0x01, 0x02, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0d, 0x10,
];

/// The first word of the repeated admin command: the same command if it changed the
/// controller's setup, else one without an effect. Other commands would write their
/// results to memory that is now in other use.
fn admin_again(command: &Command) -> u32 {
    let first = command[0];
    let is_kept = match first & 0xff {
        opcode::CREATE_SUBMISSIONS | opcode::CREATE_COMPLETIONS | opcode::DOORBELL_BUFFERS => true,
        opcode::SET_FEATURES => FEATURES.contains(&(command[10] & 0xff)),
        _ => false,
    };
    if is_kept {
        first
    } else {
        without_effect(first, opcode::KEEP_ALIVE)
    }
}

/// The same first word with another opcode and without data.
fn without_effect(first: u32, opcode: u32) -> u32 {
    first & !0xffff | opcode
}
