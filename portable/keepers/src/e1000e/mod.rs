//! Keeper of the 82574, a network controller (Intel 82574 GbE Controller Family Datasheet,
//! chapter 10).
//!
//! Stop does not wait for packets. Go sends the unsent ones. Arriving packets are lost, which a
//! network permits. Both rings continue from their old positions. Go restores heads and tails
//! before it enables anything: otherwise the controller would send the packets between a head of 0
//! and the tail again. Packet counters are not saved. The PHY negotiates again, with the settings
//! in its NVM.

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

/// The tag of its sections.
pub(crate) const TAG: &[u8; 3] = b"E1K";

const VERSION: u16 = 1;

const BAR: u8 = 0;
const BAR_BYTES: u64 = 0x2_0000;

/// The longest time of a reset; Linux waits 10 ms.
const RESET_US: u64 = 50_000;

/// The pause after a reset starts; the datasheet requires 1 us.
const RESET_PAUSE_US: u64 = 5;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Saved {
    control: u32,
    extended_control: u32,
    receive_control: u32,
    transmit_control: u32,
    interrupts: u32,
    buffers: u32,
    /// NVM and PHY accesses whose results the driver may be waiting for.
    nvm_read: u32,
    phy_access: u32,
    rings: [u32; RINGS.len()],
    registers: [u32; REGISTERS],
}

/// A controller that neither receives nor sends, while its memory accesses finish.
pub(crate) struct Stopping<M: Machine> {
    registers: M::Window,
    receive_control: u32,
    transmit_control: u32,
    interrupts: u32,
}

/// Stops receiving and sending.
pub(crate) fn begin<M: Machine>(device: &Device<'_, M>) -> Result<Stopping<M>, KeeperError> {
    let registers = device.window(BAR, 0, BAR_BYTES)?;
    let interrupts = registers.read32(IMS);
    registers.write32(IMC, u32::MAX);
    let receive_control = registers.read32(RCTL);
    let transmit_control = registers.read32(TCTL);
    registers.write32(RCTL, receive_control & !ENABLE);
    registers.write32(TCTL, transmit_control & !ENABLE);
    // This read waits until the writes have arrived.
    registers.read32(STATUS);
    // The controller must write back the processed descriptors, or it would process them again.
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
    /// Waits until all memory accesses have ended, and saves the registers.
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

/// Checks a section before the restore.
pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    read(section).map(|_| ())
}

/// Restores everything, but does not enable receiving and sending. The power may fail before the
/// harts run, and a second restore could not undo progress in the rings.
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

/// Resets the controller, so that it is idle during the restore, and divides its packet
/// buffer.
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

/// Repeats NVM and PHY accesses whose results the driver may be waiting for. Otherwise the driver
/// would report an error.
fn ask_again(registers: &impl Window, saved: &Saved) {
    if saved.nvm_read & (EERD_START | EERD_DONE) != 0 {
        registers.write32(EERD, saved.nvm_read & EERD_ADDRESS | EERD_START);
    }
    if saved.phy_access & MDIC_OPERATION != 0 {
        registers.write32(MDIC, saved.phy_access & MDIC_REQUEST);
    }
}

/// Enables everything again, and raises all interrupt causes, because the earlier ones are lost.
/// The driver then finds the events before the cut, if there are any.
pub(crate) fn announce<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    /// Sent descriptors, the link, few free receive descriptors, received packets; and
    /// with MSI-X, both queues in both directions, and other causes. A disabled cause
    /// interrupts once it is enabled.
    const CAUSES: u32 = 0x0000_0095 | 0x01f0_0000;
    let saved = read(section)?;
    let registers = device.window(BAR, 0, BAR_BYTES)?;
    registers.write32(TCTL, saved.transmit_control);
    registers.write32(RCTL, saved.receive_control);
    registers.write32(IMS, saved.interrupts);
    registers.write32(ICS, CAUSES);
    Ok(())
}
