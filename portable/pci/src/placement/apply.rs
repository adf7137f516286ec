//! Writes a plan to the functions.

use super::error::{PlacementError, Register};
use super::plan::{
    AddressKind, Bridge, PlacedFunction, PlacedRange, Plan, Window, above, register_of,
};
use crate::bus::{Bus, is_root_port, look};
use crate::list::switch_off;
use crate::register::{
    BAR0, BRIDGE_ROM, BUSES, CLASS, COMMAND, COMMAND_IO, COMMAND_MASTER, COMMAND_MEMORY,
    COMMAND_NO_INTX, INTERRUPT, PREFETCH_BASE_UPPER, PREFETCH_LIMIT_UPPER, ROM, is_bridge,
};
use crate::{ConfigSpace, Function, HostBridge};

/// The bits of a command register that let a function act.
const ACTIVE: u32 = COMMAND_IO | COMMAND_MEMORY | COMMAND_MASTER;

/// Address bits of an expansion ROM's register.
const ROM_ADDRESS: u32 = 0xffff_f800;

impl<F, R> Plan<F, R>
where
    F: Iterator<Item = PlacedFunction> + Clone,
    R: Iterator<Item = PlacedRange> + Clone,
{
    /// Places all functions. Before, it turns off all functions that it can reach, and takes the
    /// bus numbers of bridges without a name.
    ///
    /// Functions on the first bus then decode their addresses and may access memory, and bridges
    /// forward both. Functions below a bridge have their addresses, and stay off: their OS turns
    /// them on. Running it again leads to the same state.
    ///
    /// No OS may run. All functions are in D0, as after a power-on.
    ///
    /// # Errors
    ///
    /// [`PlacementError`]: all functions that can be reached are off.
    pub fn place(
        &self,
        config: &impl ConfigSpace,
        host: &HostBridge,
    ) -> Result<(), PlacementError> {
        self.silence(config, Bus::root(host))?;
        let outcome = self.place_silent(config, host);
        if outcome.is_err() {
            // A bridge that is off forwards nothing from the functions below it.
            self.silence(config, Bus::root(host))?;
        }
        outcome
    }

    /// Places functions after [`silence`](Self::silence).
    fn place_silent(
        &self,
        config: &impl ConfigSpace,
        host: &HostBridge,
    ) -> Result<(), PlacementError> {
        let bridges = self.bridges(host)?;
        for bridge in &bridges {
            let below = number(config, host, bridge)?;
            self.silence(config, below)?;
            self.refuse_unlisted(config, below)?;
        }
        for PlacedFunction { function, buses } in self.functions.clone() {
            let header = look(config, function).ok_or(PlacementError::Absent(function))?;
            if is_bridge(header) != buses.is_some() {
                return Err(PlacementError::BridgeOrNot(function));
            }
            // The first function of its device may not tell that there are others.
            turn_off(config, function)?;
            self.place_registers(config, host, &bridges, function)?;
        }
        for bridge in &bridges {
            for window in Window::ALL {
                open_window(config, bridge, window)?;
            }
        }
        self.turn_on(config, host, &bridges)
    }

    /// Turns off all functions of a bus.
    fn silence(&self, config: &impl ConfigSpace, bus: Bus) -> Result<(), PlacementError> {
        for present in bus.functions(config) {
            let function = present.function;
            turn_off(config, function)?;
            if is_bridge(present.header) {
                config.write32(function, BUSES, 0);
            }
            // Others may use the source of its INTx.
            if !self.functions.clone().any(|one| one.function == function) {
                config.write32(function, COMMAND, COMMAND_NO_INTX);
            }
        }
        Ok(())
    }

    /// Checks that each function of a bus is named. An OS could turn on the others.
    fn refuse_unlisted(&self, config: &impl ConfigSpace, bus: Bus) -> Result<(), PlacementError> {
        let is_named = |function| self.functions.clone().any(|one| one.function == function);
        let mut present = bus.functions(config).map(|present| present.function);
        match present.find(|function| !is_named(*function)) {
            None => Ok(()),
            Some(function) => Err(PlacementError::Unlisted(function)),
        }
    }

    /// Writes the BARs and the ROM's address of a function.
    fn place_registers(
        &self,
        config: &impl ConfigSpace,
        host: &HostBridge,
        bridges: &[Bridge],
        function: Function,
    ) -> Result<(), PlacementError> {
        let own = bridges.iter().find(|bridge| bridge.function == function);
        let named = || {
            self.ranges
                .clone()
                .filter(|range| range.function == function)
        };
        let (bars, rom) = if own.is_some() {
            (2, BRIDGE_ROM)
        } else {
            (6, ROM)
        };
        config.write32(function, rom, 0);
        let mut bar = 0;
        while bar < bars {
            let offset = BAR0 + 4 * bar;
            let register = register_of(function, offset);
            let found = Bar::probe(config, function, offset, bar + 1 == bars);
            match named().find(|range| range.place() == register) {
                Some(range) => {
                    range.write(config, found)?;
                    check_prefetch(above(bridges, function), &range, found)?;
                }
                None => {
                    let is_decoded = own.is_none() && named().next().is_some();
                    // A bridge forwards only if it decodes its own BAR, too.
                    let is_harmful = own.is_some() && host.cpu_address(0, 1).is_some();
                    if found.length != 0 && (is_decoded || is_harmful) {
                        return Err(PlacementError::Unnamed(register));
                    }
                    found.clear(config, function, offset);
                }
            }
            bar += found.words();
        }
        let rom_range = named().find(|range| u16::from(range.register) == rom);
        rom_range.map_or(Ok(()), |range| range.write_rom(config))
    }

    /// Turns on the functions of the first bus and all bridges, the lowest ones first.
    fn turn_on(
        &self,
        config: &impl ConfigSpace,
        host: &HostBridge,
        bridges: &[Bridge],
    ) -> Result<(), PlacementError> {
        for bridge in bridges.iter().rev() {
            let decoding = [
                (Window::Io, COMMAND_IO),
                (Window::Memory, COMMAND_MEMORY),
                (Window::Prefetchable, COMMAND_MEMORY),
            ];
            let has = |window| bridge.windows[window as usize].is_some();
            let bits = decoding.iter().filter(|(window, _)| has(*window));
            let bits = bits.fold(COMMAND_MASTER, |bits, (_, bit)| bits | bit);
            set_command(config, bridge.function, bits)?;
        }
        for PlacedFunction { function, buses } in self.functions.clone() {
            if buses.is_some() || function.bus != host.first_bus {
                continue;
            }
            let own = self
                .ranges
                .clone()
                .filter(|range| range.function == function);
            let bits = own.fold(COMMAND_MASTER, |bits, range| match range.kind {
                AddressKind::Io => bits | COMMAND_IO,
                AddressKind::Memory32 | AddressKind::Memory64 => bits | COMMAND_MEMORY,
            });
            set_command(config, function, bits)?;
        }
        Ok(())
    }
}

/// Gives a bridge its bus numbers; returns the bus below it.
fn number(
    config: &impl ConfigSpace,
    host: &HostBridge,
    bridge: &Bridge,
) -> Result<Bus, PlacementError> {
    let function = bridge.function;
    let header = look(config, function).ok_or(PlacementError::Absent(function))?;
    if !is_bridge(header) {
        return Err(PlacementError::BridgeOrNot(function));
    }
    const PROGRAMMING_INTERFACE: u32 = 0xff00;
    if config.read32(function, CLASS) & PROGRAMMING_INTERFACE != 0 {
        return Err(PlacementError::Subtractive(function));
    }
    if function.bus == host.first_bus && is_root_port(config, function)? {
        return Err(PlacementError::RootPort(function));
    }
    // Bridge control: no VGA or ISA addresses beside the windows, and no reset of the bus below.
    let interrupt = config.read32(function, INTERRUPT);
    config.write32(function, INTERRUPT, interrupt & 0xff);
    let numbers = u32::from_le_bytes([function.bus, bridge.first, bridge.last, 0]);
    write(config, register_of(function, BUSES), numbers, 0x00ff_ffff)?;
    Ok(Bus::numbered(
        config,
        function,
        (bridge.first, bridge.last),
    )?)
}

/// Sets a window of a bridge, or closes it: its base is above its limit then.
fn open_window(
    config: &impl ConfigSpace,
    bridge: &Bridge,
    window: Window,
) -> Result<(), PlacementError> {
    let function = bridge.function;
    let register = register_of(function, window.register());
    let range = bridge.windows[window as usize];
    let (value, bits) = match (window, range) {
        (Window::Io, None) => (0x00f0, 0xf0f0),
        (Window::Io, Some(range)) => {
            let unit = |address: u64| low(address >> 8) & 0xf0;
            (unit(range.end - 1) << 8 | unit(range.start), 0xf0f0)
        }
        (_, None) => (0x0000_fff0, 0xfff0_fff0),
        (_, Some(range)) => {
            let unit = |address: u64| low(address) >> 16 & 0xfff0;
            (unit(range.end - 1) << 16 | unit(range.start), 0xfff0_fff0)
        }
    };
    if window == Window::Prefetchable {
        let (start, last) = range.map_or((0, 0), |range| (range.start, range.end - 1));
        for (upper, value) in [(PREFETCH_BASE_UPPER, start), (PREFETCH_LIMIT_UPPER, last)] {
            write(
                config,
                register_of(function, upper),
                low(value >> 32),
                u32::MAX,
            )?;
        }
    }
    match write(config, register, value, bits) {
        // A bridge without this window reads as 0, and forwards nothing by it.
        Err(_) if range.is_none() && window != Window::Memory => {
            match config.read32(function, window.register()) & bits {
                0 => Ok(()),
                _ => Err(PlacementError::Stuck(register)),
            }
        }
        outcome => outcome,
    }
}

/// Checks that a BAR may be behind the window that forwards it.
fn check_prefetch(
    bridge: Option<&Bridge>,
    range: &PlacedRange,
    found: Bar,
) -> Result<(), PlacementError> {
    const PREFETCHABLE: u32 = 1 << 3;
    let is_memory = range.kind != AddressKind::Io;
    let is_plain = found.flags & PREFETCHABLE == 0;
    match bridge {
        Some(bridge) if is_memory && is_plain && !bridge.forwards(Window::Memory, &range.range) => {
            Err(PlacementError::NotPrefetchable(range.place()))
        }
        _ => Ok(()),
    }
}

/// A base address register.
#[derive(Clone, Copy, Debug)]
struct Bar {
    kind: AddressKind,
    /// The lowest bits, which are not part of an address.
    flags: u32,
    /// Bytes; 0 if the function lacks the register.
    length: u64,
}

impl Bar {
    /// Probes a register of a function that decodes nothing.
    fn probe(config: &impl ConfigSpace, function: Function, register: u16, is_last: bool) -> Self {
        config.write32(function, register, u32::MAX);
        let value = config.read32(function, register);
        let (kind, flags) = match value & 0b111 {
            0b100 if !is_last => (AddressKind::Memory64, value & 0xf),
            low if low & 1 != 0 => (AddressKind::Io, value & 0b11),
            _ => (AddressKind::Memory32, value & 0xf),
        };
        let mask = u64::from(value & !flags);
        let mask = match kind {
            AddressKind::Memory64 => {
                config.write32(function, register + 4, u32::MAX);
                mask | u64::from(config.read32(function, register + 4)) << 32
            }
            // The upper 16 bits of an I/O address may be missing.
            AddressKind::Io => mask | 0xffff_ffff_ffff_0000,
            AddressKind::Memory32 if mask == 0 => 0,
            AddressKind::Memory32 => mask | 0xffff_ffff_0000_0000,
        };
        let length = mask & mask.wrapping_neg();
        // The bits above the lowest one must all be there.
        let is_whole = mask.wrapping_add(length) == 0;
        Bar {
            kind,
            flags,
            length: if is_whole { length } else { 0 },
        }
    }

    fn words(&self) -> u16 {
        match self.kind {
            AddressKind::Memory64 => 2,
            AddressKind::Io | AddressKind::Memory32 => 1,
        }
    }

    fn clear(&self, config: &impl ConfigSpace, function: Function, register: u16) {
        for word in 0..self.words() {
            config.write32(function, register + 4 * word, 0);
        }
    }
}

impl PlacedRange {
    /// Writes a BAR.
    fn write(&self, config: &impl ConfigSpace, found: Bar) -> Result<(), PlacementError> {
        let register = self.place();
        let offset = u16::from(self.register);
        found.clear(config, self.function, offset);
        let named = self.range.length();
        if found.length != 0 && found.kind != self.kind {
            return Err(PlacementError::Kind(register));
        }
        if found.length != named {
            let found = found.length;
            return Err(PlacementError::Size {
                register,
                named,
                found,
            });
        }
        write(
            config,
            register,
            low(self.range.start) | found.flags,
            u32::MAX,
        )?;
        if self.kind == AddressKind::Memory64 {
            let upper = register_of(self.function, offset + 4);
            write(config, upper, low(self.range.start >> 32), u32::MAX)?;
        }
        Ok(())
    }

    /// Writes the address of an expansion ROM, which stays off.
    fn write_rom(&self, config: &impl ConfigSpace) -> Result<(), PlacementError> {
        let register = self.place();
        let offset = u16::from(self.register);
        config.write32(self.function, offset, ROM_ADDRESS);
        let mask = config.read32(self.function, offset) & ROM_ADDRESS;
        config.write32(self.function, offset, 0);
        let found = u64::from(mask & mask.wrapping_neg());
        let named = self.range.length();
        if found != named {
            return Err(PlacementError::Size {
                register,
                named,
                found,
            });
        }
        write(config, register, low(self.range.start), u32::MAX)
    }
}

/// Turns off a function's decoding and its access to memory.
fn turn_off(config: &impl ConfigSpace, function: Function) -> Result<(), PlacementError> {
    switch_off(config, function);
    match config.read32(function, COMMAND) & ACTIVE {
        0 => Ok(()),
        _ => Err(PlacementError::Stuck(register_of(function, COMMAND))),
    }
}

/// Sets the command register of a function that is off.
fn set_command(
    config: &impl ConfigSpace,
    function: Function,
    bits: u32,
) -> Result<(), PlacementError> {
    write(config, register_of(function, COMMAND), bits, ACTIVE)
}

/// Writes a register, and checks that it stores these bits.
fn write(
    config: &impl ConfigSpace,
    register: Register,
    value: u32,
    bits: u32,
) -> Result<(), PlacementError> {
    let offset = u16::from(register.offset);
    config.write32(register.function, offset, value);
    match (config.read32(register.function, offset) ^ value) & bits {
        0 => Ok(()),
        _ => Err(PlacementError::Stuck(register)),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "it takes the lower half")]
fn low(value: u64) -> u32 {
    value as u32
}
