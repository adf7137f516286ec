//! From devices in use to ones that write no memory, and hold nothing that was
//! acknowledged.

use arrayvec::ArrayVec;
use poorwill_image::StateWriter;
use poorwill_medium::pci;

use crate::device::Device;
use crate::kind::{Drivers, Kind, Stopping};
use crate::{KeeperError, Machine};

/// How many devices in use are kept.
pub const MAX_DEVICES: usize = 16;

/// Quiets all PCI devices and writes down what puts them back: none writes memory any more
/// when this returns, and what disks have acknowledged is on them. All are quieted
/// together, until the [time](Machine::microseconds) is `until`.
///
/// # Errors
///
/// [`KeeperError`]. Where a device has no keeper, none was touched; of those that were quieted
/// all the same, what is written puts them back.
pub fn stop<M: Machine>(
    machine: &M,
    drivers: Drivers,
    until: u64,
    into: &mut StateWriter<'_>,
) -> Result<(), KeeperError> {
    let live = save_all(machine, drivers, into)?;
    let mut stopping = ArrayVec::<(Device<'_, M>, Stopping<M>), MAX_DEVICES>::new();
    let mut quieted = Ok(());
    for (device, kind) in live {
        match kind.begin(&device, until) {
            Ok(begun) => stopping.push((device, begun)),
            Err(error) => quieted = quieted.and(Err(error)),
        }
    }
    for (device, stopping) in stopping {
        let finished = stopping.finish(&device, until, into);
        quieted = quieted.and(finished);
    }
    quieted?;
    for host in 0..machine.hosts() {
        let config = machine.config(host);
        for listed in pci::list(&config, machine.host(host))? {
            pci::take_access(&config, listed.function);
        }
    }
    Ok(())
}

/// Whether any device, but for bridges, has access to memory.
///
/// # Errors
///
/// [`KeeperError::Pci`].
pub fn reach_memory<M: Machine>(machine: &M) -> Result<bool, KeeperError> {
    for host in 0..machine.hosts() {
        let listed = pci::list(&machine.config(host), machine.host(host))?;
        if listed
            .iter()
            .any(|listed| listed.is_master && !listed.is_bridge)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

type Live<'m, M> = ArrayVec<(Device<'m, M>, Kind), MAX_DEVICES>;

// Tables are long: neither is in the other's frame.
/// Writes down what every function has. Returns those that have access to memory.
#[inline(never)]
fn save_all<'m, M: Machine>(
    machine: &'m M,
    drivers: Drivers,
    into: &mut StateWriter<'_>,
) -> Result<Live<'m, M>, KeeperError> {
    let mut live = ArrayVec::new();
    for host in 0..machine.hosts() {
        let config = machine.config(host);
        for listed in pci::list(&config, machine.host(host))? {
            let function = listed.function;
            let device = Device {
                machine,
                host,
                function,
            };
            if let Some(kind) = Kind::of_used(&config, &listed, drivers)? {
                let too_many = KeeperError::TooMany(function);
                live.try_push((device, kind)).map_err(|_| too_many)?;
            }
            crate::pci::save(&device, into)?;
        }
    }
    Ok(live)
}
