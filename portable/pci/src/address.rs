use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;

use super::bar::{self, Bar, MemoryBar};
use super::bus::{Bus, Present};
use super::register::{
    BAR0, BRIDGE_ROM, MEMORY_WINDOW, PREFETCH_BASE_UPPER, PREFETCH_LIMIT_UPPER, PREFETCH_WINDOW,
    ROM, is_bridge,
};
use super::{ConfigSpace, Function, HostBridge, Window};

/// The first address that does not fit in 32 bits.
pub(super) const FOUR_GIB: u64 = 1 << 32;

/// The granularity of bridge windows.
pub(super) const MEBIBYTE: u64 = 1 << 20;

/// The most ranges in use; with more, no address counts as free.
const MAX_TAKEN: usize = 256;

/// The bus address ranges that functions and bridges decode.
#[derive(Debug, Default)]
pub(super) struct Taken(ArrayVec<PhysRange, MAX_TAKEN>);

impl Taken {
    /// Adds the ranges of all functions on a bus, except for one BAR, given as function
    /// and register. `None` if there are too many ranges. A BAR with the value 0 has no
    /// address.
    pub(super) fn add(
        &mut self,
        config: &impl ConfigSpace,
        bus: Bus,
        except: (Function, u16),
    ) -> Option<()> {
        for Present { function, header } in bus.functions(config) {
            let (bars, rom) = match header >> 16 & 0x7f {
                0 => (6, ROM),
                1 => (2, BRIDGE_ROM),
                _ => continue,
            };
            let except = (function == except.0).then_some(except.1);
            self.add_bars(config, function, bars, except)?;
            let rom = config.read32(function, rom);
            if rom & 1 != 0 {
                // Its length is unknown, but no ROM is longer than 16 MiB.
                self.push(PhysRange::new(u64::from(rom & !0x7ff), 16 * MEBIBYTE))?;
            }
            if is_bridge(header) {
                self.push_if(memory_window(config, function))?;
                self.push_if(prefetch_window(config, function))?;
            }
        }
        Some(())
    }

    fn add_bars(
        &mut self,
        config: &impl ConfigSpace,
        function: Function,
        bars: u16,
        except: Option<u16>,
    ) -> Option<()> {
        let mut index = 0;
        while index < bars {
            let register = BAR0 + 4 * index;
            index += 1;
            // Only a BAR with an address is probed for its length.
            let is_wide = config.read32(function, register) & 0b111 == 0b100 && index < bars;
            let is_empty = config.read32(function, register) & !0xf == 0
                && !(is_wide && config.read32(function, register + 4) != 0);
            if !is_empty && except != Some(register) {
                match bar::read(config, function, register, bars) {
                    Bar::Memory(MemoryBar {
                        address, length, ..
                    }) => {
                        self.push(PhysRange::new(address, length))?;
                    }
                    Bar::Other | Bar::Unsized { .. } => {}
                }
            }
            index += u16::from(is_wide);
        }
        Some(())
    }

    fn push_if(&mut self, range: Option<PhysRange>) -> Option<()> {
        range.map_or(Some(()), |range| self.push(range))
    }

    fn push(&mut self, range: PhysRange) -> Option<()> {
        self.0.try_push(range).ok()
    }

    /// The highest free address for `length` bytes in a window, below `limit` and aligned
    /// to `length`, which must be a power of two.
    fn highest_free(&self, window: &Window, length: u64, limit: u64) -> Option<u64> {
        let end = window.pci_address.checked_add(window.length)?.min(limit);
        let mut address = end.checked_sub(length)? & !(length - 1);
        // Each step goes below one more range, so this terminates.
        for _ in 0..=self.0.len() {
            if address < window.pci_address || address == 0 {
                return None;
            }
            let wanted = PhysRange::new(address, length);
            match self.0.iter().find(|range| range.overlaps(&wanted)) {
                None => return Some(address),
                Some(range) => address = range.start.checked_sub(length)? & !(length - 1),
            }
        }
        None
    }

    /// A free address for a BAR, near the end of a window. Below a bridge the whole
    /// mebibyte around it must be free, because bridges forward whole mebibytes.
    /// Addresses above 4 GiB are used only if all bridges forward them (`beyond`; see
    /// [`forwards_beyond`]).
    pub(super) fn choose(
        &self,
        host: &HostBridge,
        bar: &MemoryBar,
        (bridged, beyond): (bool, bool),
    ) -> Option<u64> {
        let length = if bridged {
            bar.length.max(MEBIBYTE)
        } else {
            bar.length
        };
        let limit = if bar.is_wide && beyond {
            u64::MAX
        } else {
            FOUR_GIB
        };
        let place = |window: &Window| {
            let address = self.highest_free(window, length, limit)?;
            host.cpu_address(address, length).map(|_| address)
        };
        // Registers must not be prefetched. Prefetchable memory prefers addresses above 4
        // GiB, to leave the room below for them.
        let plain = || host.windows.iter().filter(|window| !window.prefetchable);
        let others = || host.windows.iter().filter(|window| window.prefetchable);
        let is_beyond = |window: &&Window| window.pci_address >= FOUR_GIB;
        let mut beyond = plain().chain(others()).filter(is_beyond);
        let first = bar.is_prefetchable.then(|| beyond.find_map(place));
        first
            .flatten()
            .or_else(|| plain().chain(others()).find_map(place))
    }
}

/// Whether a bridge can forward a BAR above 4 GiB: its prefetchable window supports 64
/// bits, and the BAR is prefetchable.
pub(super) fn forwards_beyond(
    config: &impl ConfigSpace,
    bridge: Function,
    bar: &MemoryBar,
) -> bool {
    bar.is_prefetchable && config.read32(bridge, PREFETCH_WINDOW) & 0xf == 1
}

pub(super) fn forwards(config: &impl ConfigSpace, bridge: Function, range: PhysRange) -> bool {
    [
        memory_window(config, bridge),
        prefetch_window(config, bridge),
    ]
    .into_iter()
    .flatten()
    .any(|window| window.start <= range.start && range.end <= window.end)
}

fn memory_window(config: &impl ConfigSpace, bridge: Function) -> Option<PhysRange> {
    let window = config.read32(bridge, MEMORY_WINDOW);
    between(
        u64::from(window & 0xfff0) << 16,
        u64::from(window & 0xfff0_0000),
    )
}

fn prefetch_window(config: &impl ConfigSpace, bridge: Function) -> Option<PhysRange> {
    let window = config.read32(bridge, PREFETCH_WINDOW);
    let upper = |register| match window & 0xf {
        1 => u64::from(config.read32(bridge, register)) << 32,
        _ => 0,
    };
    between(
        u64::from(window & 0xfff0) << 16 | upper(PREFETCH_BASE_UPPER),
        u64::from(window & 0xfff0_0000) | upper(PREFETCH_LIMIT_UPPER),
    )
}

/// The range from the first to the last mebibyte. A window with its base above its limit
/// is closed.
fn between(first: u64, last: u64) -> Option<PhysRange> {
    (first <= last).then(|| PhysRange {
        start: first,
        end: last.saturating_add(MEBIBYTE),
    })
}

/// Whether a bridge forwards the range only through its non-prefetchable memory window.
pub(super) fn needs_memory_window(
    config: &impl ConfigSpace,
    bridge: Function,
    range: PhysRange,
) -> bool {
    let holds = |window: PhysRange| window.start <= range.start && range.end <= window.end;
    memory_window(config, bridge).is_some_and(holds)
        && !prefetch_window(config, bridge).is_some_and(holds)
}

/// The value of a memory window register for exactly the mebibytes of the range.
pub(super) fn window_of(range: PhysRange) -> u32 {
    let mebibyte = |address: u64| u32::try_from(address >> 20 & 0xfff).unwrap_or(0);
    mebibyte(range.start) << 4 | mebibyte(range.end - 1) << 20
}
