use arrayvec::ArrayVec;
use poorwill_image::StateWriter;

use super::TAG;
use super::command::Command;
use super::hba::{Hba, MAX_PORTS, numbers};
use super::registers::*;
use super::saved::{SavedPort, VERSION, mask, set_of};
use crate::device::Device;
use crate::machine::wait_until;
use crate::{KeeperError, Machine};

/// An HBA that no longer interrupts, while its disks finish.
pub(crate) struct Stopping<M: Machine> {
    registers: M::Window,
    implemented: u32,
    host_control: u32,
}

/// Disables the HBA's interrupts. Its disks continue.
///
/// # Errors
///
/// [`KeeperError::State`] if the driver uses a feature that cannot be saved.
pub(crate) fn begin<M: Machine>(device: &Device<'_, M>) -> Result<Stopping<M>, KeeperError> {
    let hba = Hba::new(*device)?;
    let host_control = hba.read(GHC);
    let has_switching = hba.read(CAP) & CAP_FIS_SWITCHING != 0;
    let is_unknown = |number| {
        let port = hba.port(number);
        port.read(CMD) & CMD_MULTIPLIER != 0 || has_switching && port.read(FBS) & FBS_ENABLE != 0
    };
    if host_control & GHC_AHCI == 0
        || hba.read(CCC_CTL) & CCC_ENABLE != 0
        || numbers(hba.implemented).any(is_unknown)
    {
        return Err(hba.state());
    }
    hba.write(GHC, host_control & !GHC_INTERRUPTS);
    Ok(Stopping {
        host_control,
        implemented: hba.implemented,
        registers: hba.registers,
    })
}

impl<M: Machine> Stopping<M> {
    /// Waits for the disks, flushes them, halts all ports and saves their registers.
    pub(crate) fn finish(
        self,
        device: &Device<'_, M>,
        until: u64,
        into: &mut StateWriter<'_>,
    ) -> Result<(), KeeperError> {
        let hba = Hba {
            device: *device,
            registers: self.registers,
            implemented: self.implemented,
        };
        let mut ports: ArrayVec<SavedPort, MAX_PORTS> = numbers(hba.implemented)
            .map(|number| save(&hba, number, self.host_control))
            .collect();
        let now = device.machine.microseconds();
        drain(&hba, &mut ports, now + until.saturating_sub(now) / 2);
        let present = set_of(&ports, |port| hba.port(port.number).is_present());
        let unfinished = set_of(&ports, |port| is_unfinished(&hba, port));
        hba.halt(hba.implemented, until)?;
        hba.start(present, unfinished, hba.own()?, until)?;
        let mut flushed_ext = 0;
        for port in ports.iter_mut().filter(|port| present & port.bit() != 0) {
            let identity = hba.identify(port.number, until)?;
            if identity.is_secured {
                return Err(hba.state());
            }
            port.signature = hba.port(port.number).read(SIG);
            port.identity = identity.checksum;
            port.features = identity.features.into();
            flushed_ext |= port.bit() & mask(identity.flush == Command::FlushCacheExt);
        }
        let disks = set_of(&ports, |port| port.signature == SIG_DISK);
        hba.flush(disks, flushed_ext, until)?;
        hba.halt(present, until)?;
        into.section(
            device.owner(TAG),
            device.number(),
            VERSION,
            ports.as_slice(),
        )?;
        Ok(())
    }
}

/// Reads a port's registers. Ends a device's reset, so that the device can be flushed.
fn save<M: Machine>(hba: &Hba<'_, M>, number: u32, host_control: u32) -> SavedPort {
    let port = hba.port(number);
    let saved = SavedPort {
        capabilities: hba.read(CAP),
        implemented: hba.implemented,
        host_control,
        number,
        list: [port.read(CLB), port.read(CLBU)],
        fis: [port.read(FB), port.read(FBU)],
        interrupts: port.read(PXIE),
        command: port.read(CMD),
        link_control: port.read(SCTL),
        signature: 0,
        active: 0,
        issued: port.read(CI),
        features: 0,
        reserved: 0,
        identity: 0,
    };
    if saved.link_control & DETECTION == SCTL_RESET {
        port.write(SCTL, saved.link_control & !DETECTION);
    }
    saved
}

/// Waits until each port has finished its commands, or can no longer finish them.
fn drain<M: Machine>(hba: &Hba<'_, M>, ports: &mut [SavedPort], until: u64) {
    wait_until(hba.device.machine, until, || {
        let mut is_drained = true;
        for saved in &mut *ports {
            is_drained &= look(hba, saved);
        }
        is_drained
    });
}

/// Updates a port's outstanding commands. Returns true if no command needs a wait.
fn look<M: Machine>(hba: &Hba<'_, M>, saved: &mut SavedPort) -> bool {
    let port = hba.port(saved.number);
    // The order matters. A queued command leaves CI before SACT, so a queued command that is in CI
    // now was in SACT before.
    saved.active = port.read(SACT);
    let issued = port.read(CI);
    saved.issued = (saved.issued | issued) & (saved.active | issued);
    let has_failed = port.read(PXIS) & PXIS_FATAL != 0;
    match (port.is_present(), saved.link_control & DETECTION) {
        (true, _) => saved.active | saved.issued == 0 || has_failed,
        // A device may appear after the end of its reset.
        (false, SCTL_RESET) => false,
        (false, _) => true,
    }
}

/// Whether a port's device must be reset before it takes another command.
fn is_unfinished<M: Machine>(hba: &Hba<'_, M>, saved: &SavedPort) -> bool {
    let port = hba.port(saved.number);
    saved.active | saved.issued != 0
        || port.read(PXIS) & PXIS_FATAL != 0
        || port.read(TFD) & TFD_BUSY != 0
}
