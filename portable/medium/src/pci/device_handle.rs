use core::cell::Cell;

use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;

use super::address::{FOUR_GIB, Taken, forwards, forwards_beyond, needs_memory_window, window_of};
use super::bar::{self, MemoryBar};
use super::bus::{Bus, look};
use super::journal::Journal;
use super::kind::MEMORY_SIZES;
use super::power::{is_bridge, wake};
use super::register::{
    COMMAND, COMMAND_MASTER, COMMAND_MEMORY, COMMAND_NO_INTX, ID, Kept, MEMORY_WINDOW, MSI,
    MSI_ENABLE, MSI_X, MSI_X_ENABLE, PREFETCH_BASE_UPPER, PREFETCH_LIMIT_UPPER, PREFETCH_WINDOW,
};
use super::{ConfigSpace, Function, HostBridge, Kind, Location, MAX_DEPTH, PciError, capability};
use crate::Clock;

/// A device in use by the firmware: powered, its BAR reachable by the CPU, a controller free to
/// access memory, its interrupts off. [`DeviceHandle::release`] gives it back.
#[derive(Debug)]
#[must_use = "a device that is acquired must be released"]
pub struct DeviceHandle {
    function: Function,
    id: u32,
    bar: BarMapping,
    journal: Journal,
    is_cut: Cell<bool>,
}

/// Makes the device at `location` work, whatever state it and the bridges
/// above it are in. Addresses that are configured and work are kept; otherwise
/// some are chosen that nothing else on the way answers to.
///
/// One handle at a time: bridges may be shared, and what one found is what
/// another changed.
///
/// # Errors
///
/// See [`PciError`]; everything is as before then.
pub fn acquire(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    host: &HostBridge,
    location: &Location,
) -> Result<DeviceHandle, PciError> {
    let mut journal = Journal::default();
    match reach(config, clock, host, location, &mut journal) {
        Ok((function, bar)) => Ok(DeviceHandle {
            id: config.read32(function, ID),
            function,
            bar,
            journal,
            is_cut: Cell::new(false),
        }),
        Err(error) => {
            journal.undo(config, clock, None);
            Err(error)
        }
    }
}

impl DeviceHandle {
    /// The device's address on the bus while it is acquired.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }

    /// Where the CPU reaches the BAR that its [`Kind`] has for use.
    #[must_use]
    pub fn cpu_address(&self) -> u64 {
        self.bar.cpu.start
    }

    /// How many bytes the BAR has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.bar.cpu.length()
    }

    /// Whether the device still answers: one that was pulled out, or has lost
    /// its power, does not.
    #[must_use]
    pub fn is_present(&self, config: &impl ConfigSpace) -> bool {
        config.read32(self.function, ID) == self.id
    }

    /// Makes memory behind another BAR (0 to 5) of the same device reachable,
    /// too, and returns where. The BAR of the handle is not to be accessed
    /// meanwhile. `location` is what was acquired.
    ///
    /// # Errors
    ///
    /// See [`PciError`]; the handle is as good as before, and its release puts
    /// everything back.
    pub fn add_memory(
        &mut self,
        config: &impl ConfigSpace,
        clock: &impl Clock,
        host: &HostBridge,
        location: &Location,
        bar: u8,
    ) -> Result<PhysRange, PciError> {
        let path = BridgePath::follow(config, clock, host, location, &mut self.journal)?;
        let function = path.last.at(location.function);
        let memory = bar::memory(config, function, bar, MEMORY_SIZES)?;
        let mapper = BarMapper {
            config,
            host,
            path: &path,
            function,
            rights: location.kind.rights(),
            kept: Some(self.bar.pci),
        };
        let mapping = mapper.map(&memory, &mut self.journal);
        // Even when that failed: an assignment turns decoding off.
        mapper.enable(&mut self.journal)?;
        Ok(mapping?.cpu)
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

    /// Puts everything back that [`acquire`] changed, in reverse order: at
    /// power-on the bus is as if never touched, after a failed sleep it is as
    /// the OS left it.
    pub fn release(self, config: &impl ConfigSpace, clock: &impl Clock) {
        let cut = self.is_cut.get().then_some(self.function);
        self.journal.undo(config, clock, cut);
    }
}

/// Where a mapped BAR lies, on the bus and for the CPU.
#[derive(Clone, Copy, Debug)]
struct BarMapping {
    pci: PhysRange,
    cpu: PhysRange,
}

/// The bridges between the host bridge and a function, each with the bus it is on.
struct BridgePath {
    bridges: ArrayVec<(Bus, Function), MAX_DEPTH>,
    /// The function's own bus.
    last: Bus,
}

impl BridgePath {
    /// Wakes and numbers the bridges as needed.
    fn follow(
        config: &impl ConfigSpace,
        clock: &impl Clock,
        host: &HostBridge,
        location: &Location,
        journal: &mut Journal,
    ) -> Result<Self, PciError> {
        let mut path = BridgePath {
            bridges: ArrayVec::new(),
            last: Bus::root(host),
        };
        for &step in &location.bridges {
            let bridge = path.last.at(step);
            if !is_bridge(header(config, bridge)?) {
                return Err(PciError::Changed(bridge));
            }
            let behind = path.last.behind(config, clock, bridge, journal)?;
            path.bridges.push((path.last, bridge));
            path.last = behind;
        }
        Ok(path)
    }

    fn bridges(&self) -> impl Iterator<Item = Function> + '_ {
        self.bridges.iter().map(|&(_, bridge)| bridge)
    }
}

/// Does what [`acquire`] says; returns the function and where its BAR is.
fn reach(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    host: &HostBridge,
    location: &Location,
    journal: &mut Journal,
) -> Result<(Function, BarMapping), PciError> {
    let path = BridgePath::follow(config, clock, host, location, journal)?;
    let function = path.last.at(location.function);
    let kind = Kind::of(config, function, header(config, function)?);
    if kind != Some(location.kind) {
        return Err(PciError::Changed(function));
    }
    wake(config, clock, function, journal)?;
    silence(config, function, journal)?;

    let bar = bar::memory(config, function, location.kind.bar(), location.kind.sizes())?;
    let mapper = BarMapper {
        config,
        host,
        path: &path,
        function,
        rights: location.kind.rights(),
        kept: None,
    };
    let mapping = mapper.map(&bar, journal)?;
    mapper.enable(journal)?;
    Ok((function, mapping))
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

/// A function that can be reached, and what it takes to reach its BARs.
struct BarMapper<'a, C> {
    config: &'a C,
    host: &'a HostBridge,
    path: &'a BridgePath,
    function: Function,
    /// Bits of the command register that the function, and the bridges above
    /// it, must have set.
    rights: u32,
    /// Addresses on the bus that must stay with the function.
    kept: Option<PhysRange>,
}

impl<C: ConfigSpace> BarMapper<'_, C> {
    /// Sees to it that accesses to the BAR arrive at the function; returns where
    /// it is.
    fn map(&self, bar: &MemoryBar, journal: &mut Journal) -> Result<BarMapping, PciError> {
        let address = match self.configured(bar) {
            Some(address) => address,
            None => {
                let address = self.vacant(bar).ok_or(self.no_address(bar))?;
                assign(self.config, self.function, bar, address, journal)?;
                address
            }
        };
        let range = PhysRange::new(address, bar.length);
        if self
            .path
            .bridges()
            .any(|bridge| self.is_in_use(bridge, range))
        {
            return Err(self.no_address(bar));
        }
        for bridge in self.path.bridges() {
            open(self.config, bridge, range, journal)?;
            enable(self.config, bridge, (self.rights, 0), journal)?;
        }
        let cpu_address = self.host.cpu_address(address, bar.length);
        let cpu_address = cpu_address.ok_or(self.no_address(bar))?;
        Ok(BarMapping {
            pci: range,
            cpu: PhysRange::new(cpu_address, bar.length),
        })
    }

    /// Whether the window that a bridge needs for the range is at work for what
    /// must be kept.
    fn is_in_use(&self, bridge: Function, range: PhysRange) -> bool {
        let moves = range.end <= FOUR_GIB && !forwards(self.config, bridge, range);
        moves && (self.kept).is_some_and(|kept| needs_memory_window(self.config, bridge, kept))
    }

    /// The address that the BAR has, if the CPU can reach it there.
    fn configured(&self, bar: &MemoryBar) -> Option<u64> {
        let range = PhysRange::new(bar.address, bar.length);
        let works = bar.address != 0
            && self.host.cpu_address(bar.address, bar.length).is_some()
            && (self.path.bridges()).all(|bridge| forwards(self.config, bridge, range));
        works.then_some(bar.address)
    }

    /// An address for the BAR that nothing on the way to it answers to.
    fn vacant(&self, bar: &MemoryBar) -> Option<u64> {
        let buses = self.path.bridges.iter().map(|&(bus, _)| bus);
        let mut taken = Taken::default();
        for bus in buses.chain([self.path.last]) {
            taken.add(self.config, bus, (self.function, bar.register))?;
        }
        let beyond = (self.path.bridges()).all(|bridge| forwards_beyond(self.config, bridge, bar));
        let bridged = !self.path.bridges.is_empty();
        taken.choose(self.host, bar, (bridged, beyond))
    }

    fn no_address(&self, bar: &MemoryBar) -> PciError {
        PciError::NoAddress {
            function: self.function,
            length: bar.length,
        }
    }

    /// Lets the function answer, without interrupts.
    fn enable(&self, journal: &mut Journal) -> Result<(), PciError> {
        let rights = (self.rights, COMMAND_NO_INTX);
        enable(self.config, self.function, rights, journal)
    }
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
    let (low, high) = halves(address);
    journal.force(config, function, (bar.register, Kept::ALL), ADDRESS, low)?;
    if bar.is_wide {
        let upper = (bar.register + 4, Kept::ALL);
        journal.force(config, function, upper, u32::MAX, high)?;
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
fn halves(address: u64) -> (u32, u32) {
    (address as u32, (address >> 32) as u32)
}

/// Lets a bridge forward the range down: through the window for plain memory,
/// or beyond 4 GiB through that for memory that may be prefetched.
fn open(
    config: &impl ConfigSpace,
    bridge: Function,
    range: PhysRange,
    journal: &mut Journal,
) -> Result<(), PciError> {
    const WINDOW: u32 = 0xfff0_fff0;
    let mut set =
        |register, bits, value| journal.force(config, bridge, (register, Kept::ALL), bits, value);
    if forwards(config, bridge, range) {
        Ok(())
    } else if range.end <= FOUR_GIB {
        set(MEMORY_WINDOW, WINDOW, window_of(range))
    } else {
        set(PREFETCH_BASE_UPPER, u32::MAX, halves(range.start).1)?;
        set(PREFETCH_WINDOW, WINDOW, window_of(range))?;
        set(PREFETCH_LIMIT_UPPER, u32::MAX, halves(range.end - 1).1)
    }
}

/// Gives a function `rights`, and sets further bits of its command register.
fn enable(
    config: &impl ConfigSpace,
    function: Function,
    (rights, besides): (u32, u32),
    journal: &mut Journal,
) -> Result<(), PciError> {
    let found = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
    // Even when it stays as it is: `cut_dma` may change it later.
    journal.note(function, COMMAND, found)?;
    config.write32(function, COMMAND, found | rights | besides);
    if config.read32(function, COMMAND) & rights == rights {
        Ok(())
    } else {
        Err(PciError::Stuck {
            function,
            register: COMMAND,
        })
    }
}
