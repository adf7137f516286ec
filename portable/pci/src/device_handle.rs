use core::cell::Cell;

use arrayvec::ArrayVec;
use poorwill_clock::Clock;
use poorwill_memory::PhysRange;

use super::address::{FOUR_GIB, Taken, forwards, forwards_beyond, needs_memory_window, window_of};
use super::bar::{self, MemoryBar};
use super::bus::{Bus, look};
use super::journal::Journal;
use super::kind::MEMORY_SIZES;
use super::power::wake;
use super::register::{
    COMMAND, COMMAND_MEMORY, COMMAND_NO_INTX, ID, Kept, MEMORY_WINDOW, MSI, MSI_ENABLE, MSI_X,
    MSI_X_ENABLE, PREFETCH_BASE_UPPER, PREFETCH_LIMIT_UPPER, PREFETCH_WINDOW, is_bridge,
};
use super::{
    ConfigSpace, Function, HostBridge, Kind, Location, MAX_DEPTH, PciError, capability, take_access,
};

/// A device in use by the firmware: powered, its BAR mapped, bus mastering on if it needs
/// that, its interrupts off. [`DeviceHandle::release`] undoes all of it.
#[derive(Debug)]
#[must_use = "a device that is acquired must be released"]
pub struct DeviceHandle {
    function: Function,
    id: u32,
    bar: BarMapping,
    journal: Journal,
    /// It was placed at the start, and keeps its registers.
    is_placed: bool,
    is_cut: Cell<bool>,
}

/// The device at `location` on the first bus, which the start has [placed](super::placement) with
/// this `range` of its BAR. Neither this nor the handle's release changes a register.
///
/// # Errors
///
/// [`PciError::Absent`], [`PciError::Changed`], [`PciError::NoAddress`].
pub fn placed(
    config: &impl ConfigSpace,
    host: &HostBridge,
    location: &Location,
    range: PhysRange,
) -> Result<DeviceHandle, PciError> {
    let function = Bus::root(host).at(location.function);
    if Kind::of(config, function, header(config, function)?) != Some(location.kind) {
        return Err(PciError::Changed(function));
    }
    let length = range.length();
    let no_address = PciError::NoAddress { function, length };
    let start = host.cpu_address(range.start, length).ok_or(no_address)?;
    Ok(DeviceHandle {
        function,
        id: config.read32(function, ID),
        bar: BarMapping {
            pci: range,
            cpu: PhysRange::new(start, length),
        },
        journal: Journal::default(),
        is_placed: true,
        is_cut: Cell::new(false),
    })
}

/// Makes the device at `location` usable, in any state of it and of the bridges above it.
/// Keeps working addresses; otherwise assigns addresses that are free on the path.
///
/// Only one handle may exist at a time: bridges may be shared, so a second handle would
/// treat the first one's changes as the original state.
///
/// # Errors
///
/// See [`PciError`]; the bus is then unchanged.
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
            is_placed: false,
            is_cut: Cell::new(false),
        }),
        Err(error) => {
            journal.undo(config, clock, None);
            Err(error)
        }
    }
}

impl DeviceHandle {
    /// The device's bus address while it is acquired.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }

    /// The CPU address of the BAR for devices of this [`Kind`].
    #[must_use]
    pub fn cpu_address(&self) -> u64 {
        self.bar.cpu.start
    }

    /// The length of that BAR in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.bar.cpu.length()
    }

    /// Whether the device still answers. It does not if it was pulled out or lost its
    /// power.
    #[must_use]
    pub fn is_present(&self, config: &impl ConfigSpace) -> bool {
        config.read32(self.function, ID) == self.id
    }

    /// Maps another memory BAR (0 to 5) of the same device, and returns its address
    /// range. The handle's first BAR must not be accessed during this call. `location`
    /// must be the handle's.
    ///
    /// # Errors
    ///
    /// See [`PciError`]; the handle stays valid, and its release restores all registers.
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
        // Also after a failure, because assigning an address turns decoding off.
        mapper.enable(&mut self.journal)?;
        Ok(mapping?.cpu)
    }

    /// Turns bus mastering off, if a controller does not stop by itself. It stays off after the
    /// release, until the OS's driver resets the controller and turns it on. The owner of a placed
    /// device takes its access away, as soon as the handle [says so](Self::is_cut).
    pub fn cut_dma(&self, config: &impl ConfigSpace) {
        if !self.is_placed {
            take_access(config, self.function);
        }
        self.is_cut.set(true);
    }

    /// Whether the device did not stop, so that it must not reach memory.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Restores all changed registers, in reverse order: at power-on to their reset
    /// values, after a failed sleep to the OS's values.
    pub fn release(self, config: &impl ConfigSpace, clock: &impl Clock) {
        let cut = self.is_cut.get().then_some(self.function);
        self.journal.undo(config, clock, cut);
    }
}

/// The addresses of a mapped BAR, on the bus and for the CPU.
#[derive(Clone, Copy, Debug)]
struct BarMapping {
    pci: PhysRange,
    cpu: PhysRange,
}

/// The bridges between the host bridge and a function, each with its bus.
struct BridgePath {
    bridges: ArrayVec<(Bus, Function), MAX_DEPTH>,
    last: Bus,
}

impl BridgePath {
    /// Brings the bridges to D0 and assigns bus numbers if needed.
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

/// The implementation of [`acquire`]. Returns the function and its mapped BAR.
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

/// Maps the BARs of a function whose configuration space is reachable.
struct BarMapper<'a, C> {
    config: &'a C,
    host: &'a HostBridge,
    path: &'a BridgePath,
    function: Function,
    /// Bits of the command register that the function and the bridges above it need.
    rights: u32,
    /// Bus addresses of the function that must stay mapped.
    kept: Option<PhysRange>,
}

impl<C: ConfigSpace> BarMapper<'_, C> {
    /// Maps the BAR: assigns an address if it has no working one, and opens the bridges'
    /// windows.
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

    /// Whether opening the bridge's window for the range would close it for the addresses
    /// that must stay mapped.
    fn is_in_use(&self, bridge: Function, range: PhysRange) -> bool {
        let moves = range.end <= FOUR_GIB && !forwards(self.config, bridge, range);
        moves && (self.kept).is_some_and(|kept| needs_memory_window(self.config, bridge, kept))
    }

    /// The BAR's current address, if the CPU can reach it.
    fn configured(&self, bar: &MemoryBar) -> Option<u64> {
        let range = PhysRange::new(bar.address, bar.length);
        let works = bar.address != 0
            && self.host.cpu_address(bar.address, bar.length).is_some()
            && (self.path.bridges()).all(|bridge| forwards(self.config, bridge, range));
        works.then_some(bar.address)
    }

    /// A free address for the BAR: no function or bridge on the path decodes it.
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

    /// Turns on decoding, and bus mastering if needed; INTx stays off.
    fn enable(&self, journal: &mut Journal) -> Result<(), PciError> {
        let rights = (self.rights, COMMAND_NO_INTX);
        enable(self.config, self.function, rights, journal)
    }
}

/// Assigns an address to the BAR, with decoding off.
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

/// Opens a bridge's window for the range: the memory window, or above 4 GiB the
/// prefetchable window.
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

/// Sets `rights` and the bits `besides` in a function's command register.
fn enable(
    config: &impl ConfigSpace,
    function: Function,
    (rights, besides): (u32, u32),
    journal: &mut Journal,
) -> Result<(), PciError> {
    let found = config.read32(function, COMMAND) & Kept::LOWER_HALF.0;
    // Recorded even without a change, because `cut_dma` may change it later.
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
