//! Keeper of the 82574, a network controller (Intel 82574 GbE Controller Family Datasheet,
//! chapter 10).
//!
//! Nothing is drained: what was not sent yet is sent after the power-on, and what arrives
//! meanwhile is lost, as packets may be. Both rings go on where they were, so heads and
//! tails are back before anything is enabled: the controller would otherwise send again
//! what lies between a head of 0 and the tail. Not kept are counters of packets, and what
//! the PHY negotiates: it does so anew, with the settings of its NVM.

mod registers;

use poorwill_image::{StateSection, StateWriter};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use self::registers::{
    CTRL, CTRL_EXT, CTRL_EXT_STARTS, CTRL_MASTER_DISABLE, CTRL_PHY_RESET, CTRL_RESET, EECD,
    EECD_AUTO_READ_DONE, EERD, EERD_ADDRESS, EERD_DONE, EERD_START, ENABLE, FLUSH_DESCRIPTORS, ICS,
    IMC, IMS, MDIC, MDIC_OPERATION, MDIC_REQUEST, PBA, RCTL, RDTR, REGISTERS, RINGS, STATUS,
    STATUS_MASTER, TCTL, TIDV, kept,
};
use crate::device::Device;
use crate::machine::wait_until;
use crate::{KeeperError, Machine, Window};

/// Of its sections.
pub(crate) const TAG: &[u8; 3] = b"E1K";

const VERSION: u16 = 1;

const BAR: u8 = 0;
const BAR_BYTES: u64 = 0x2_0000;

/// How long the controller takes to come out of a reset: Linux waits for 10 ms.
const RESET_US: u64 = 50_000;

/// For how long it must be left alone then; the datasheet says 1 us.
const RESET_PAUSE_US: u64 = 5;

/// What is kept.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Saved {
    control: u32,
    extended_control: u32,
    receive_control: u32,
    transmit_control: u32,
    interrupts: u32,
    buffers: u32,
    /// Accesses that the driver may be waiting for.
    nvm_read: u32,
    phy_access: u32,
    rings: [u32; RINGS.len()],
    registers: [u32; REGISTERS],
}

/// One that is being quieted: neither receives nor sends any more.
pub(crate) struct Stopping<M: Machine> {
    registers: M::Window,
    receive_control: u32,
    transmit_control: u32,
    interrupts: u32,
}

/// Has it begin no packet any more.
///
/// # Errors
///
/// [`KeeperError::Unreachable`].
pub(crate) fn begin<M: Machine>(
    device: &Device<'_, M>,
    _until: u64,
) -> Result<Stopping<M>, KeeperError> {
    let registers = device.window(BAR, 0, BAR_BYTES)?;
    let interrupts = registers.read32(IMS);
    registers.write32(IMC, u32::MAX);
    let receive_control = registers.read32(RCTL);
    let transmit_control = registers.read32(TCTL);
    registers.write32(RCTL, receive_control & !ENABLE);
    registers.write32(TCTL, transmit_control & !ENABLE);
    // A read, so that the writes have arrived.
    registers.read32(STATUS);
    // What is done with, but not yet written back, must not be done again.
    for register in [RDTR, TIDV] {
        let delay = registers.read32(register);
        registers.write32(register, delay | FLUSH_DESCRIPTORS);
    }
    Ok(Stopping {
        registers,
        receive_control,
        transmit_control,
        interrupts,
    })
}

impl<M: Machine> Stopping<M> {
    /// Waits until nothing of it is under way to memory, and writes down its registers.
    ///
    /// # Errors
    ///
    /// [`KeeperError::NotDone`], [`KeeperError::Record`].
    pub(crate) fn finish(
        self,
        device: &Device<'_, M>,
        until: u64,
        into: &mut StateWriter<'_>,
    ) -> Result<(), KeeperError> {
        let registers = &self.registers;
        let control = registers.read32(CTRL);
        registers.write32(CTRL, control | CTRL_MASTER_DISABLE);
        let is_quiet = || registers.read32(STATUS) & STATUS_MASTER == 0;
        if !wait_until(device.machine, until, is_quiet) {
            return Err(KeeperError::NotDone(device.function));
        }
        let mut offsets = kept();
        let saved = Saved {
            control,
            extended_control: registers.read32(CTRL_EXT),
            receive_control: self.receive_control,
            transmit_control: self.transmit_control,
            interrupts: self.interrupts,
            buffers: registers.read32(PBA),
            nvm_read: registers.read32(EERD),
            phy_access: registers.read32(MDIC),
            rings: RINGS.map(|register| registers.read32(register)),
            registers: core::array::from_fn(|_| {
                offsets
                    .next()
                    .map_or(0, |register| registers.read32(register))
            }),
        };
        into.section(device.owner(TAG), device.number(), VERSION, &saved)?;
        Ok(())
    }
}

fn read<'a>(section: &StateSection<'a>) -> Result<&'a Saved, KeeperError> {
    Ok(section.read::<Saved>(VERSION)?)
}

/// Checks what is to be put back.
///
/// # Errors
///
/// [`KeeperError::Record`].
pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    read(section).map(|_| ())
}

/// Puts everything back, but neither receives nor sends yet: what it took from its rings
/// could not be put back once more, should the power fail before harts go on.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn put_back<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let saved = read(section)?;
    let registers = device.window(BAR, 0, BAR_BYTES)?;
    reset(device, &registers, saved.buffers)?;
    for (register, value) in kept().zip(saved.registers) {
        registers.write32(register, value);
    }
    registers.write32(CTRL_EXT, saved.extended_control & !CTRL_EXT_STARTS);
    registers.write32(CTRL, saved.control & !(CTRL_RESET | CTRL_PHY_RESET));
    ask_again(&registers, saved);
    for (register, value) in RINGS.into_iter().zip(saved.rings) {
        registers.write32(register, value);
    }
    registers.write32(TCTL, saved.transmit_control & !ENABLE);
    registers.write32(RCTL, saved.receive_control & !ENABLE);
    Ok(())
}

/// Resets it, so that it does nothing while it is changed, and divides its buffer.
fn reset<M: Machine>(
    device: &Device<'_, M>,
    registers: &M::Window,
    buffers: u32,
) -> Result<(), KeeperError> {
    registers.write32(IMC, u32::MAX);
    registers.write32(RCTL, 0);
    registers.write32(TCTL, 0);
    registers.write32(PBA, buffers);
    registers.write32(CTRL, registers.read32(CTRL) | CTRL_RESET);
    let machine = device.machine;
    let now = machine.microseconds();
    wait_until(machine, now.saturating_add(RESET_PAUSE_US), || false);
    let is_up = || registers.read32(EECD) & EECD_AUTO_READ_DONE != 0;
    if !wait_until(machine, now.saturating_add(RESET_US), is_up) {
        return Err(KeeperError::NotDone(device.function));
    }
    registers.write32(IMC, u32::MAX);
    Ok(())
}

/// Accesses to the NVM and to the PHY that the driver may be waiting for, once more: it
/// would give up otherwise.
fn ask_again(registers: &impl Window, saved: &Saved) {
    if saved.nvm_read & (EERD_START | EERD_DONE) != 0 {
        registers.write32(EERD, saved.nvm_read & EERD_ADDRESS | EERD_START);
    }
    if saved.phy_access & MDIC_OPERATION != 0 {
        registers.write32(MDIC, saved.phy_access & MDIC_REQUEST);
    }
}

/// Has it interrupt as it did, and at once: for all causes, as those that it had are
/// forgotten. The driver finds nothing new, or what happened up to the cut.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn announce<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    /// Descriptors sent, the link, few descriptors left, packets received; and for messages
    /// by kind both queues of both directions, and others. What is disabled now comes when
    /// it is enabled.
    const CAUSES: u32 = 0x0000_0095 | 0x01f0_0000;
    let saved = read(section)?;
    let registers = device.window(BAR, 0, BAR_BYTES)?;
    registers.write32(TCTL, saved.transmit_control);
    registers.write32(RCTL, saved.receive_control);
    registers.write32(IMS, saved.interrupts);
    registers.write32(ICS, CAUSES);
    Ok(())
}
