use core::cell::Cell;

use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;

use super::address::{Taken, forwards, window_of};
use super::bar::{self, MemoryBar};
use super::bus::{Bus, look};
use super::find::is_controller;
use super::journal::Journal;
use super::power::{is_bridge, wake};
use super::register::{
    COMMAND, COMMAND_MASTER, COMMAND_MEMORY, COMMAND_NO_INTX, Kept, MEMORY_WINDOW, MSI, MSI_ENABLE,
    MSI_X, MSI_X_ENABLE,
};
use super::{ConfigSpace, Function, HostBridge, Location, MAX_DEPTH, PciError, capability};
use crate::Clock;

/// A controller on loan: powered, its registers reachable by the CPU, free to
/// access memory, its interrupts off. [`Claim::release`] gives it back.
#[derive(Debug)]
#[must_use = "a controller that is claimed must be released"]
pub struct Claim {
    function: Function,
    cpu_address: u64,
    length: u64,
    journal: Journal,
    is_cut: Cell<bool>,
}

/// Makes the controller at `location` work, whatever state it and the bridges
/// above it are in. Addresses that are configured and work are kept; otherwise
/// some are chosen that nothing else on the way answers to.
///
/// One claim at a time: bridges may be shared, and what one claim found is what
/// another changed.
///
/// # Errors
///
/// See [`PciError`]; everything is as before then.
pub fn claim(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    host: &HostBridge,
    location: &Location,
) -> Result<Claim, PciError> {
    let mut journal = Journal::default();
    match reach(config, clock, host, location, &mut journal) {
        Ok((function, address)) => Ok(Claim {
            function,
            cpu_address: address.start,
            length: address.length(),
            journal,
            is_cut: Cell::new(false),
        }),
        Err(error) => {
            journal.undo(config, clock, None);
            Err(error)
        }
    }
}

impl Claim {
    /// The controller's address on the bus while it is claimed.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }

    /// Where the CPU reaches the controller's registers (BAR 0).
    #[must_use]
    pub fn cpu_address(&self) -> u64 {
        self.cpu_address
    }

    /// How many bytes of registers there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Takes the right to access memory from the controller: the last resort
    /// when it does not stop by itself (see
    /// [`Registers::cut_dma`](crate::nvme::Registers::cut_dma)). It stays cut
    /// off after the release, until whoever resets it grants the right anew.
    pub fn cut_dma(&self, config: &impl ConfigSpace) {
        let command = config.read32(self.function, COMMAND) & Kept::LOWER_HALF.0;
        config.write32(self.function, COMMAND, command & !COMMAND_MASTER);
        self.is_cut.set(true);
    }

    /// Puts everything back that [`claim`] changed, in reverse order: at
    /// power-on the bus is as if never touched, after a failed sleep it is as
    /// the OS left it.
    pub fn release(self, config: &impl ConfigSpace, clock: &impl Clock) {
        let cut = self.is_cut.get().then_some(self.function);
        self.journal.undo(config, clock, cut);
    }
}

/// A bridge on the way and the bus it is on.
type Way = ArrayVec<(Bus, Function), MAX_DEPTH>;

/// Does what [`claim`] says; returns the controller and where the CPU reaches
/// its registers.
fn reach(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    host: &HostBridge,
    location: &Location,
    journal: &mut Journal,
) -> Result<(Function, PhysRange), PciError> {
    let mut way = Way::new();
    let mut bus = Bus::root(host);
    for &step in &location.bridges {
        let bridge = bus.at(step);
        if !is_bridge(header(config, bridge)?) {
            return Err(PciError::Changed(bridge));
        }
        let behind = bus.behind(config, clock, bridge, journal)?;
        way.push((bus, bridge));
        bus = behind;
    }
    let function = bus.at(location.controller);
    if !is_controller(config, function, header(config, function)?) {
        return Err(PciError::Changed(function));
    }
    wake(config, clock, function, journal)?;
    silence(config, function, journal)?;

    let bar = bar::controller(config, function)?;
    let address = match configured(config, host, &way, &bar) {
        Some(address) => address,
        None => {
            let address = vacant(config, host, (&way, bus), function, &bar)?;
            assign(config, function, &bar, address, journal)?;
            address
        }
    };
    let range = PhysRange::new(address, bar.length);
    for &(_, bridge) in &way {
        open(config, bridge, range, journal)?;
    }
    enable(config, function, COMMAND_NO_INTX, journal)?;
    let no_address = PciError::NoAddress {
        function,
        length: bar.length,
    };
    let cpu_address = host.cpu_address(address, bar.length).ok_or(no_address)?;
    Ok((function, PhysRange::new(cpu_address, bar.length)))
}

fn header(config: &impl ConfigSpace, function: Function) -> Result<u32, PciError> {
    look(config, function).ok_or(PciError::Absent(function))
}

/// Turns message interrupts off.
fn silence(
    config: &impl ConfigSpace,
    function: Function,
    journal: &mut Journal,
) -> Result<(), PciError> {
    for (id, enable) in [(MSI, MSI_ENABLE), (MSI_X, MSI_X_ENABLE)] {
        if let Some(register) = capability::find(config, function, id)? {
            journal.force(config, function, (register, Kept::ALL), enable, 0)?;
        }
    }
    Ok(())
}

/// The address that the BAR has, if the CPU can reach it there.
fn configured(
    config: &impl ConfigSpace,
    host: &HostBridge,
    way: &Way,
    bar: &MemoryBar,
) -> Option<u64> {
    let range = PhysRange::new(bar.address, bar.length);
    let works = bar.address != 0
        && host.cpu_address(bar.address, bar.length).is_some()
        && way
            .iter()
            .all(|&(_, bridge)| forwards(config, bridge, range));
    works.then_some(bar.address)
}

/// An address for the BAR that nothing on the way to it answers to.
fn vacant(
    config: &impl ConfigSpace,
    host: &HostBridge,
    (way, last): (&Way, Bus),
    function: Function,
    bar: &MemoryBar,
) -> Result<u64, PciError> {
    let buses = way.iter().map(|&(bus, _)| bus).chain([last]);
    let mut taken = Taken::default();
    buses
        .map(|bus| taken.add(config, bus, function))
        .collect::<Option<()>>()
        .and_then(|()| taken.choose(host, bar, !way.is_empty()))
        .ok_or(PciError::NoAddress {
            function,
            length: bar.length,
        })
}

/// Puts an address into the BAR, while it is not decoded.
fn assign(
    config: &impl ConfigSpace,
    function: Function,
    bar: &MemoryBar,
    address: u64,
    journal: &mut Journal,
) -> Result<(), PciError> {
    const ADDRESS: u32 = !0xf;
    journal.force(
        config,
        function,
        (COMMAND, Kept::LOWER_HALF),
        COMMAND_MEMORY,
        0,
    )?;
    #[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
    let (low, high) = (address as u32, (address >> 32) as u32);
    journal.force(config, function, (bar.register, Kept::ALL), ADDRESS, low)?;
    if bar.is_wide {
        journal.force(
            config,
            function,
            (bar.register + 4, Kept::ALL),
            u32::MAX,
            high,
        )?;
    }
    Ok(())
}

/// Lets a bridge forward the range down and DMA up.
fn open(
    config: &impl ConfigSpace,
    bridge: Function,
    range: PhysRange,
    journal: &mut Journal,
) -> Result<(), PciError> {
    const WINDOW: u32 = 0xfff0_fff0;
    if !forwards(config, bridge, range) {
        journal.force(
            config,
            bridge,
            (MEMORY_WINDOW, Kept::ALL),
            WINDOW,
            window_of(range),
        )?;
    }
    enable(config, bridge, 0, journal)
}

/// Lets a function answer to its addresses and access memory.
fn enable(
    config: &impl ConfigSpace,
    function: Function,
    besides: u32,
    journal: &mut Journal,
) -> Result<(), PciError> {
    const NEEDED: u32 = COMMAND_MEMORY | COMMAND_MASTER;
    let found = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
    // Even when it stays as it is: `cut_dma` may change it later.
    journal.note(function, COMMAND, found)?;
    config.write32(function, COMMAND, found | NEEDED | besides);
    if config.read32(function, COMMAND) & NEEDED == NEEDED {
        Ok(())
    } else {
        Err(PciError::Stuck {
            function,
            register: COMMAND,
        })
    }
}
