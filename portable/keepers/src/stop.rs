//! Stops the devices in use: they write no more memory, and all acknowledged data is
//! durable.

use arrayvec::ArrayVec;
use poorwill_image::StateWriter;
use poorwill_pci as pci;

use crate::device::Device;
use crate::kind::{Drivers, Kind, Stopping};
use crate::{KeeperError, MAX_DEVICES, Machine};

/// Stops all PCI devices and saves their state. When this returns, no device writes
/// memory, and all data that disks have acknowledged is durable. The devices stop in
/// parallel, until the [time](Machine::microseconds) `until`.
///
/// # Errors
///
/// [`KeeperError`]. If a device in use has no keeper, no device was touched. Otherwise
/// the written sections can restore the devices that were stopped.
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

/// Whether any device except bridges has access to memory.
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

// Separate functions, so that the long tables do not share a stack frame.
/// Saves each function's configuration. Returns the devices with access to memory.
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
