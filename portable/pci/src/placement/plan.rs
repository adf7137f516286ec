//! The plan, and its checks without hardware.

use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;

use super::MAX_BRIDGES;
use super::error::{PlacementError, Register};
use crate::register::{BAR0, BRIDGE_ROM, IO_WINDOW, MEMORY_WINDOW, PREFETCH_WINDOW, ROM};
use crate::{Function, HostBridge};

/// A function that a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedFunction {
    /// Its address, with the plan's bus numbers.
    pub function: Function,
    /// First and last bus below it, if it is a bridge.
    pub buses: Option<(u8, u8)>,
}

impl PlacedFunction {
    /// Returns whether this is the function's routing ID, or one of a bus below it.
    #[must_use]
    pub fn has_id(&self, id: u32) -> bool {
        let bus = id >> 8;
        let is_below = |(first, last)| (u32::from(first)..=u32::from(last)).contains(&bus);
        u32::from(self.function.routing_id()) == id || self.buses.is_some_and(is_below)
    }

    /// The highest routing ID of the buses below it, or of its own bus.
    #[must_use]
    pub fn highest_id(&self) -> u32 {
        let last = self.buses.map_or(self.function.bus, |(_, last)| last);
        u32::from(last) << 8 | 0xff
    }
}

/// Addresses that a function decodes, or that a bridge forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRange {
    /// The function.
    pub function: Function,
    /// The register that holds the address: a BAR, the expansion ROM's, or a bridge's window.
    pub register: u8,
    /// The kind of address.
    pub kind: AddressKind,
    /// The addresses on the bus; not empty.
    pub range: PhysRange,
}

impl PlacedRange {
    /// Returns whether the register is the BAR with this number, 0 to 5.
    #[must_use]
    pub fn is_bar(&self, number: u8) -> bool {
        u16::from(self.register) == BAR0 + 4 * u16::from(number)
    }
}

/// The kind of an address on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// I/O space.
    Io,
    /// Memory, by a register of 32 bits.
    Memory32,
    /// Memory, by a register of 64 bits.
    Memory64,
}

/// The functions and addresses of a machine, as iterators that can be repeated. Names are in any
/// order.
#[derive(Clone, Debug)]
pub struct Plan<F, R> {
    pub(super) functions: F,
    pub(super) ranges: R,
}

/// Windows of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Io,
    Memory,
    /// Prefetchable memory, also above 4 GiB.
    Prefetchable,
}

/// A bridge with its windows: the named ones, or those that enclose all named addresses below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bridge {
    pub(super) function: Function,
    pub(super) first: u8,
    pub(super) last: u8,
    /// By [`Window::ALL`].
    pub(super) windows: [Option<PhysRange>; 3],
}

/// Addresses on a bus that one register claims.
#[derive(Clone, Copy, Debug)]
struct Claim {
    register: Register,
    is_io: bool,
    range: PhysRange,
}

const FOUR_GIB: u64 = 1 << 32;
/// I/O addresses that each bridge forwards have 16 bits.
const IO_LIMIT: u64 = 1 << 16;

impl Window {
    pub(super) const ALL: [Window; 3] = [Window::Io, Window::Memory, Window::Prefetchable];

    /// The register with its base and limit.
    pub(super) fn register(self) -> u16 {
        match self {
            Window::Io => IO_WINDOW,
            Window::Memory => MEMORY_WINDOW,
            Window::Prefetchable => PREFETCH_WINDOW,
        }
    }

    /// Bytes of its unit.
    fn unit(self) -> u64 {
        match self {
            Window::Io => 1 << 12,
            Window::Memory | Window::Prefetchable => 1 << 20,
        }
    }

    /// The window that encloses a range, unless the plan names one.
    fn for_range(is_io: bool, range: &PhysRange) -> Self {
        match (is_io, range.end <= FOUR_GIB) {
            (true, _) => Window::Io,
            (false, true) => Window::Memory,
            (false, false) => Window::Prefetchable,
        }
    }

    fn is_io(self) -> bool {
        self == Window::Io
    }
}

impl Bridge {
    fn new(function: Function, (first, last): (u8, u8)) -> Self {
        Bridge {
            function,
            first,
            last,
            windows: [None; 3],
        }
    }

    /// Whether a window forwards the whole range.
    pub(super) fn forwards(&self, window: Window, range: &PhysRange) -> bool {
        self.windows[window as usize]
            .is_some_and(|window| window.start <= range.start && range.end <= window.end)
    }

    fn claims(&self) -> impl Iterator<Item = Claim> + '_ {
        Window::ALL.into_iter().filter_map(|window| {
            Some(Claim {
                register: register_of(self.function, window.register()),
                is_io: window.is_io(),
                range: self.windows[window as usize]?,
            })
        })
    }
}

impl Claim {
    fn collides(&self, other: &Claim) -> bool {
        self.register != other.register
            && self.register.function.bus == other.register.function.bus
            && self.is_io == other.is_io
            && self.range.overlaps(&other.range)
    }
}

impl PlacedRange {
    pub(super) fn place(&self) -> Register {
        Register {
            function: self.function,
            offset: self.register,
        }
    }

    fn claim(&self) -> Claim {
        Claim {
            register: self.place(),
            is_io: self.kind == AddressKind::Io,
            range: self.range,
        }
    }

    /// The window of a bridge that this names.
    fn window(&self, is_bridge: bool) -> Option<Window> {
        let is_its = |window: &Window| window.register() == u16::from(self.register);
        Window::ALL
            .into_iter()
            .find(|window| is_bridge && is_its(window))
    }

    /// Checks the range by itself.
    fn check(&self, is_bridge: bool) -> Result<(), PlacementError> {
        let register = self.place();
        let window = self.window(is_bridge);
        let is_io = self.kind == AddressKind::Io;
        let has_address = match (window, u16::from(self.register)) {
            (Some(window), _) => window.is_io() == is_io,
            (None, BRIDGE_ROM) => is_bridge && self.kind == AddressKind::Memory32,
            (None, ROM) => !is_bridge && self.kind == AddressKind::Memory32,
            (None, bar) => is_bar(bar, is_bridge, self.kind),
        };
        if !has_address || self.range.start >= self.range.end {
            return Err(PlacementError::NoRegister(register));
        }
        let limit = match (self.kind, window) {
            (AddressKind::Io, _) => IO_LIMIT,
            (AddressKind::Memory32, _) | (_, Some(Window::Memory)) => FOUR_GIB,
            (AddressKind::Memory64, _) => u64::MAX,
        };
        if self.range.end > limit {
            return Err(PlacementError::TooHigh { register, limit });
        }
        let length = self.range.length();
        let alignment = window.map_or(length.next_power_of_two(), Window::unit);
        let ends = [self.range.start, self.range.end];
        match ends.iter().find(|end| !end.is_multiple_of(alignment)) {
            None => Ok(()),
            Some(address) => Err(PlacementError::Misaligned {
                register,
                address: *address,
                alignment,
            }),
        }
    }
}

/// Whether a register is a BAR that holds an address of this kind.
fn is_bar(register: u16, is_bridge: bool, kind: AddressKind) -> bool {
    let count = if is_bridge { 2 } else { 6 };
    let words = if kind == AddressKind::Memory64 { 2 } else { 1 };
    let last = BAR0 + 4 * (count - words);
    register.is_multiple_of(4) && (BAR0..=last).contains(&register)
}

pub(super) fn register_of(function: Function, offset: u16) -> Register {
    // All offsets are in the header, so they have 8 bits.
    let [offset, _] = offset.to_le_bytes();
    Register { function, offset }
}

impl<F, R> Plan<F, R>
where
    F: Iterator<Item = PlacedFunction> + Clone,
    R: Iterator<Item = PlacedRange> + Clone,
{
    /// A plan of functions, and of the ranges of their registers.
    pub fn new(functions: F, ranges: R) -> Self {
        Plan { functions, ranges }
    }

    /// Checks all that can be told without the functions themselves.
    ///
    /// # Errors
    ///
    /// The first fault that it finds: those of [`PlacementError`] up to `Overlap`.
    pub fn check(&self, host: &HostBridge) -> Result<(), PlacementError> {
        self.bridges(host).map(|_| ())
    }

    /// The bridges, those nearest to the host bridge first. Checks the plan.
    pub(super) fn bridges(
        &self,
        host: &HostBridge,
    ) -> Result<ArrayVec<Bridge, MAX_BRIDGES>, PlacementError> {
        let mut bridges = ArrayVec::new();
        for PlacedFunction { function, buses } in self.functions.clone() {
            let same = self
                .functions
                .clone()
                .filter(|other| other.function == function);
            if same.count() > 1 {
                return Err(PlacementError::Twice(function));
            }
            if let Some(buses) = buses {
                let too_many = PlacementError::TooManyBridges(function);
                let bridge = Bridge::new(function, buses);
                bridges.try_push(bridge).map_err(|_| too_many)?;
            }
        }
        bridges.sort_unstable_by_key(|bridge: &Bridge| bridge.function);
        check_buses(&bridges, host)?;
        let unknown = (self.functions.clone()).find(|one| {
            one.function.bus != host.first_bus && above(&bridges, one.function).is_none()
        });
        if let Some(PlacedFunction { function, .. }) = unknown {
            return Err(PlacementError::UnknownBus(function));
        }
        for range in self.ranges.clone() {
            let is_its = |one: &PlacedFunction| one.function == range.function;
            let owner = self.functions.clone().find(is_its);
            let owner = owner.ok_or(PlacementError::NoRegister(range.place()))?;
            range.check(owner.buses.is_some())?;
        }
        self.add_windows(&mut bridges);
        self.check_places(&bridges, host)?;
        Ok(bridges)
    }

    /// Ranges of BARs and ROMs.
    fn bars<'a>(&'a self, bridges: &'a [Bridge]) -> impl Iterator<Item = PlacedRange> + 'a {
        self.ranges.clone().filter(|range| {
            let is_bridge = bridges
                .iter()
                .any(|bridge| bridge.function == range.function);
            range.window(is_bridge).is_none()
        })
    }

    /// Gives each bridge its windows, from the lowest bridge up.
    fn add_windows(&self, bridges: &mut [Bridge]) {
        for index in (0..bridges.len()).rev() {
            let Bridge {
                function, first, ..
            } = bridges[index];
            let mut windows: [Option<PhysRange>; 3] = [None; 3];
            let below = self.bars(bridges).map(|range| range.claim());
            let below = below.chain(bridges.iter().flat_map(Bridge::claims));
            for claim in below.filter(|claim| claim.register.function.bus == first) {
                let window = Window::for_range(claim.is_io, &claim.range);
                let enclosed = &mut windows[window as usize];
                *enclosed = Some(enclose(*enclosed, &claim.range, window.unit()));
            }
            for range in self
                .ranges
                .clone()
                .filter(|range| range.function == function)
            {
                if let Some(window) = range.window(true) {
                    windows[window as usize] = Some(range.range);
                }
            }
            bridges[index].windows = windows;
        }
    }

    /// Checks that each range is forwarded to its bus, and that no two collide there.
    fn check_places(&self, bridges: &[Bridge], host: &HostBridge) -> Result<(), PlacementError> {
        let claims = || {
            let bars = self.bars(bridges).map(|range| range.claim());
            bars.chain(bridges.iter().flat_map(Bridge::claims))
        };
        for (number, claim) in claims().enumerate() {
            let Claim {
                register,
                is_io,
                range,
            } = claim;
            match above(bridges, register.function) {
                None if !is_io && host.cpu_address(range.start, range.length()).is_none() => {
                    return Err(PlacementError::OutsideHost(register));
                }
                Some(bridge) if !is_forwarded(bridge, is_io, &range) => {
                    let bridge = bridge.function;
                    return Err(PlacementError::OutsideBridge { register, bridge });
                }
                _ => {}
            }
            if let Some(other) = claims()
                .skip(number + 1)
                .find(|other| claim.collides(other))
            {
                let (first, second) = (register, other.register);
                return Err(PlacementError::Overlap { first, second });
            }
        }
        Ok(())
    }
}

fn is_forwarded(bridge: &Bridge, is_io: bool, range: &PhysRange) -> bool {
    let mut windows = Window::ALL.into_iter();
    windows.any(|window| window.is_io() == is_io && bridge.forwards(window, range))
}

/// The bridge that leads to a function's bus.
pub(super) fn above(bridges: &[Bridge], function: Function) -> Option<&Bridge> {
    bridges.iter().find(|bridge| bridge.first == function.bus)
}

/// The smallest window of whole units with both ranges.
fn enclose(window: Option<PhysRange>, range: &PhysRange, unit: u64) -> PhysRange {
    let start = range.start / unit * unit;
    let end = range.end.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
    match window {
        None => PhysRange { start, end },
        Some(window) => PhysRange {
            start: window.start.min(start),
            end: window.end.max(end),
        },
    }
}

/// Checks that bus numbers are nested like the bridges.
fn check_buses(bridges: &[Bridge], host: &HostBridge) -> Result<(), PlacementError> {
    for bridge in bridges {
        let own = bridge.function.bus;
        let is_ordered = host.first_bus <= own && own < bridge.first && bridge.first <= bridge.last;
        let collides = bridges.iter().any(|other| {
            let is_other = other.function != bridge.function;
            let is_apart = other.last < bridge.first || bridge.last < other.first;
            is_other && !is_apart && !is_below(other, bridge) && !is_below(bridge, other)
        });
        if !is_ordered || bridge.last > host.last_bus || collides {
            return Err(PlacementError::Buses(bridge.function));
        }
    }
    Ok(())
}

/// Whether a bridge and all buses below it are below another one.
fn is_below(lower: &Bridge, upper: &Bridge) -> bool {
    let buses = upper.first..=upper.last;
    buses.contains(&lower.function.bus) && buses.contains(&lower.last)
}
