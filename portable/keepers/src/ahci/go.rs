use poorwill_image::StateSection;

use super::command::{Command, FEATURES, Identity};
use super::hba::Hba;
use super::registers::*;
use super::saved::{self, SavedPort, mask, set_of};
use crate::device::Device;
use crate::{KeeperError, Machine};

/// The longest time that a port takes to halt (10.1.2).
const HALT_US: u64 = 500_000;

/// The longest time from power-on until a disk is ready; Linux waits as long.
const READY_US: u64 = 35_000_000;

/// Checks a section before the restore.
pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    saved::ports(section).map(|_| ())
}

fn find<'a, M: Machine>(
    device: &Device<'a, M>,
    ports: &[SavedPort],
) -> Result<Hba<'a, M>, KeeperError> {
    let hba = Hba::new(*device)?;
    if set_of(ports, |_| true) & !hba.implemented != 0 {
        return Err(KeeperError::Changed(device.function));
    }
    Ok(hba)
}

/// Restores everything except the interrupt enables, and issues the outstanding commands
/// again.
pub(crate) fn put_back<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let ports = saved::ports(section)?;
    let Some(first) = ports.first() else {
        return Ok(());
    };
    put_back_capabilities(device, first)?;
    let hba = find(device, ports)?;
    hba.write(GHC, GHC_AHCI);
    let now = device.machine.microseconds();
    let running = set_of(ports, |port| {
        hba.port(port.number).read(CMD) & CMD_START != 0
    });
    for saved in ports {
        hba.port(saved.number).write(PXIE, 0);
    }
    hba.halt(set_of(ports, |_| true), now.saturating_add(HALT_US))?;
    for saved in ports {
        let power = saved.command & CMD_POWER;
        hba.port(saved.number).command(0, power);
    }
    let devices = set_of(ports, SavedPort::has_device);
    let until = now.saturating_add(READY_US);
    hba.start(devices, running, hba.own()?, until)?;
    let mut flushed_ext = 0;
    for saved in ports.iter().filter(|port| port.has_device()) {
        let flush = put_back_device(&hba, saved, until)?;
        flushed_ext |= saved.bit() & mask(flush == Command::FlushCacheExt);
    }
    let disks = set_of(ports, |port| port.signature == SIG_DISK);
    hba.flush(disks, flushed_ext, until)?;
    hba.halt(devices, until)?;
    for saved in ports {
        put_back_port(&hba, saved);
    }
    Ok(())
}

/// Restores the registers that can be written once after a power-on.
fn put_back_capabilities<M: Machine>(
    device: &Device<'_, M>,
    saved: &SavedPort,
) -> Result<(), KeeperError> {
    let hba = Hba::new(*device)?;
    for (register, value) in [(CAP, saved.capabilities), (PI, saved.implemented)] {
        if hba.read(register) != value {
            hba.write(register, value);
        }
        if hba.read(register) != value {
            return Err(KeeperError::Changed(device.function));
        }
    }
    Ok(())
}

/// Checks that a port's device is the same, and restores its cache settings. Returns its
/// flush command.
fn put_back_device<M: Machine>(
    hba: &Hba<'_, M>,
    saved: &SavedPort,
    until: u64,
) -> Result<Command, KeeperError> {
    let port = hba.port(saved.number);
    let changed = KeeperError::Changed(hba.device.function);
    if port.read(SIG) != saved.signature {
        return Err(changed);
    }
    let Identity {
        checksum,
        features,
        flush,
        ..
    } = hba.identify(saved.number, until)?;
    if checksum != saved.identity {
        return Err(changed);
    }
    for (bit, on, off) in FEATURES {
        let is_wanted = saved.features & u32::from(bit) != 0;
        if is_wanted != (features & bit != 0) {
            let command = Command::SetFeatures(if is_wanted { on } else { off });
            hba.execute(saved.bit(), command, until)?;
        }
    }
    Ok(flush)
}

/// Returns a halted port to its driver.
fn put_back_port<M: Machine>(hba: &Hba<'_, M>, saved: &SavedPort) {
    const OTHERS: u32 = CMD_START | CMD_OVERRIDE | CMD_LINK | CMD_FIS_RUNS | CMD_LIST_RUNS;
    let port = hba.port(saved.number);
    for (register, [low, high]) in [(CLB, saved.list), (FB, saved.fis)] {
        port.write(register, low);
        port.write(register + 4, high);
    }
    port.write(CMD, saved.command & !OTHERS);
    port.write(SCTL, saved.link_control);
    if saved.command & CMD_START != 0 {
        port.command(0, CMD_START);
        port.write(SACT, saved.active);
        port.write(CI, saved.issued);
    }
}

/// Restores the interrupt enables. The keeper's own commands left an interrupt pending,
/// so the HBA interrupts at once.
pub(crate) fn announce<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let ports = saved::ports(section)?;
    let Some(first) = ports.first() else {
        return Ok(());
    };
    let hba = find(device, ports)?;
    hba.write(IS, u32::MAX);
    hba.write(GHC, first.host_control & GHC_INTERRUPTS | GHC_AHCI);
    // The interrupt enables come last, because a port sends its message when its interrupt becomes
    // enabled.
    for saved in ports {
        hba.port(saved.number).write(PXIE, saved.interrupts);
    }
    Ok(())
}
