//! The devices on the bus of memory whose state a power failure takes: other UARTs than the
//! console, flash, the configuration device, the clock, places for virtio devices. What
//! becomes of each node of the tree is `devicetree::Census`'s to say.

use core::fmt;

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{MAX_FW_CFGS, MAX_UARTS, Machine, NodeName};
use poorwill_drivers::FlashBank;
use poorwill_drivers::fw_cfg::FwCfgState;
use poorwill_drivers::uart::{Uart, UartState};
use poorwill_medium::cfi::{self, Cfi, CfiError, Geometry, Mode};
use poorwill_memory::PhysRange;
use spin::Once;
use thiserror::Error;

use super::power_fail::WaitClock;
use super::{platform, virtio};

/// Banks of flash at most, as of a flash in the tree.
const MAX_BANKS: usize = 4;

/// Why no cut is to be taken on a machine with such devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum BusObstacle {
    /// Nothing keeps the state of a device.
    #[error("nothing keeps the state of {name}{}", Others(*.others))]
    Unkept {
        /// The name of its node, the first of such.
        name: NodeName,
        /// How many more there are.
        others: usize,
    },
    /// Nothing tells how the OS uses the configuration device.
    #[error("without PMP nothing tells what of the device at {0:#x} the OS has selected")]
    Unwatched(u64),
    /// A bank of flash does not answer as it should.
    #[error("the flash at {0:#x} cannot be kept: {1}")]
    Flash(u64, CfiError),
    /// A bank of flash holds more than a mode.
    #[error("the flash at {0:#x} has locks or settings that a power-on resets")]
    FlashForgets(u64),
}

/// How many others there are, in words; nothing without any.
struct Others(usize);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            others => write!(f, ", nor of {others} more"),
        }
    }
}

/// A bank of flash that the OS uses.
#[derive(Debug)]
struct Bank {
    registers: FlashBank<Mmio>,
    address: u64,
    geometry: Geometry,
    /// Offset of the last word in it that is the OS's.
    last_word: u64,
}

/// The devices.
#[derive(Debug)]
struct Devices {
    uarts: ArrayVec<Uart<Mmio>, MAX_UARTS>,
    banks: ArrayVec<Bank, MAX_BANKS>,
    /// Names of those that nothing keeps.
    unkept: ArrayVec<NodeName, { poorwill_devicetree::MAX_NAMED }>,
    obstacle: Option<BusObstacle>,
}

static DEVICES: Once<Devices> = Once::new();

/// What the devices hold for the OS.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusState {
    /// UARTs in the tree's order, without the console.
    pub(crate) uarts: ArrayVec<UartState, MAX_UARTS>,
    /// Configuration devices in the tree's order.
    pub(crate) fw_cfgs: ArrayVec<FwCfgState, MAX_FW_CFGS>,
    /// The modes of the banks of flash, by their numbers; none where they were not asked.
    pub(crate) modes: ArrayVec<u8, MAX_BANKS>,
    /// Places for virtio devices that an OS has looked at: a bit for each, in the tree's order.
    pub(crate) virtio: u32,
}

/// Learns of the devices: on a machine without a power-fail line of those for virtio alone. Of
/// flash `vault` is the firmware's. `is_watched`: the OS's accesses to mediated registers are seen.
///
/// # Safety
///
/// `machine` describes this machine, no OS runs, and nobody else uses these devices.
// A function of its own: see `domain::start`.
#[inline(never)]
pub(super) unsafe fn start(
    machine: &Machine,
    vault: Option<PhysRange>,
    is_watched: bool,
    time: &Time,
) {
    // SAFETY: passed on to the caller.
    unsafe { virtio::start(machine) };
    if machine.power_fail.is_none() {
        return;
    }
    let census = &machine.census;
    let console = machine.console.map(|uart| uart.base);
    let others = census
        .uarts
        .iter()
        .filter(|uart| Some(uart.base) != console);
    // SAFETY: the tree, which is right, says the caller, names these addresses as UARTs.
    let uart = |uart: &poorwill_devicetree::Uart| Uart::new(unsafe { Mmio::new(uart.base) }, uart);
    let (mut banks, mut obstacle) = (ArrayVec::new(), None);
    if let Some(first) = census.unkept.first() {
        let others = census.unkept.len() - 1 + census.more_unkept;
        obstacle = Some(BusObstacle::Unkept {
            name: *first,
            others,
        });
    } else if let Some(device) = machine.fw_cfg.first().filter(|_| !is_watched) {
        obstacle = Some(BusObstacle::Unwatched(device.start));
    } else {
        for range in os_banks(machine, vault) {
            let width = machine.flash.as_ref().map_or(0, |flash| flash.width as u8);
            // SAFETY: likewise, as a bank of flash.
            let registers =
                FlashBank::new(unsafe { Mmio::new(range.start) }, range.length(), width);
            let last_word = last_word(machine, vault, range);
            match bank(registers, range.start, last_word, time) {
                Ok(bank) => banks.push(bank),
                Err(reason) => obstacle = obstacle.or(Some(reason)),
            }
        }
    }
    DEVICES.call_once(|| Devices {
        uarts: others.map(uart).collect(),
        banks,
        unkept: census.unkept.clone(),
        obstacle,
    });
}

/// The banks of which the OS has a part.
fn os_banks(machine: &Machine, vault: Option<PhysRange>) -> impl Iterator<Item = PhysRange> {
    let flash = machine.flash.iter();
    flash.flat_map(move |flash| {
        let is_os = move |bank: &&PhysRange| flash.of_os(vault).any(|part| part.overlaps(bank));
        flash.banks.iter().filter(is_os).copied()
    })
}

/// The offset of the last word in a bank that is the OS's.
fn last_word(machine: &Machine, vault: Option<PhysRange>, bank: PhysRange) -> u64 {
    let flash = machine.flash.iter();
    let parts = flash.flat_map(|flash| flash.of_os(vault));
    let ends = (parts.filter(|part| part.overlaps(&bank))).map(|part| part.end.min(bank.end));
    let width = machine.flash.as_ref().map_or(0, |flash| flash.width);
    ends.max().unwrap_or(bank.end) - bank.start - u64::from(width)
}

#[inline(never)]
fn bank(
    registers: FlashBank<Mmio>,
    address: u64,
    last_word: u64,
    time: &Time,
) -> Result<Bank, BusObstacle> {
    let cfi = Cfi::start(registers, WaitClock(time.clone()));
    let cfi = cfi.map_err(|error| BusObstacle::Flash(address, error))?;
    let geometry = cfi.geometry().clone();
    match geometry.forgets_more {
        true => Err(BusObstacle::FlashForgets(address)),
        false => Ok(Bank {
            registers,
            address,
            geometry,
            last_word,
        }),
    }
}

/// What keeps a machine with these devices from being cut.
pub(crate) fn obstacle() -> Option<BusObstacle> {
    DEVICES.get()?.obstacle
}

/// The names of devices that nothing keeps, the first ones.
pub(crate) fn unkept() -> impl Iterator<Item = &'static NodeName> {
    DEVICES
        .get()
        .into_iter()
        .flat_map(|devices| &devices.unkept)
}

/// What the devices hold for the OS, which runs on no hart; flash only where `with_flash`. It
/// reads as memory then.
///
/// # Errors
///
/// The address of a device whose state cannot be kept.
pub(crate) fn capture(with_flash: bool) -> Result<BusState, u64> {
    let mut state = BusState {
        fw_cfgs: platform().mediated.capture_fw_cfgs()?,
        virtio: virtio::acknowledged(),
        ..BusState::default()
    };
    let Some(devices) = DEVICES.get() else {
        return Ok(state);
    };
    state.uarts = devices.uarts.iter().map(Uart::capture).collect();
    for bank in devices.banks.iter().filter(|_| with_flash) {
        let mode = cfi::read_mode(&bank.registers, &bank.geometry, bank.last_word);
        state.modes.push(mode.map_err(|_| bank.address)?.number());
    }
    Ok(state)
}

/// Whether a state is of these devices.
pub(crate) fn fits(state: &BusState) -> bool {
    let (uarts, banks) = DEVICES
        .get()
        .map_or((0, 0), |devices| (devices.uarts.len(), devices.banks.len()));
    let are_modes = state
        .modes
        .iter()
        .all(|mode| Mode::of_number(*mode).is_some());
    state.uarts.len() == uarts
        && [0, banks].contains(&state.modes.len())
        && are_modes
        && state.fw_cfgs.len() == platform().mediated.fw_cfgs()
}

/// Has flash read as it did. Nothing of machine mode's may use flash after that: the vault's
/// bank may be the OS's, too.
pub(crate) fn restore_flash(state: &BusState) {
    let banks = DEVICES.get().into_iter().flat_map(|devices| &devices.banks);
    for (bank, mode) in banks.zip(&state.modes) {
        if let Some(mode) = Mode::of_number(*mode) {
            cfi::set_mode(&bank.registers, &bank.geometry, mode);
        }
    }
}

/// Puts it back, but for [flash](restore_flash).
///
/// # Errors
///
/// The address of a device that has not taken it.
pub(crate) fn restore(state: &BusState) -> Result<(), u64> {
    virtio::acknowledge(state.virtio);
    if let Some(devices) = DEVICES.get() {
        for (uart, state) in devices.uarts.iter().zip(&state.uarts) {
            uart.restore(state);
        }
    }
    platform().mediated.restore_fw_cfgs(&state.fw_cfgs)
}
