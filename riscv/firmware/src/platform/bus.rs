//! The devices on the bus of memory that lose their state with the power: UARTs beside the
//! console, flash, the configuration device, the clock, places for virtio devices.
//! `devicetree::Census` has the rule for each node of the tree.

use core::borrow::Borrow;
use core::fmt;

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{MAX_UARTS, Machine, NodeName};
use poorwill_drivers::fw_cfg::FwCfgState;
use poorwill_drivers::uart::{Uart, UartState};
use poorwill_drivers::{FlashBank, RtcState};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_medium::cfi::{self, Cfi, CfiError, Geometry, Mode};
use poorwill_memory::PhysRange;
use poorwill_sleep::NotKept;
use spin::Once;
use thiserror::Error;

use super::console::{UART, say};
use super::power_fail::WaitClock;
use super::{platform, virtio};
use crate::kept::{Keep, KeepValue, Saving, Section, Store, kept};

/// Banks of flash at most, as of a flash in the tree.
const MAX_BANKS: usize = 4;

/// Why a machine with such devices is not cut.
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
    /// The OS's accesses to the configuration device are not seen.
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
    /// Names of devices without a keeper.
    unkept: ArrayVec<NodeName, { poorwill_devicetree::MAX_NAMED }>,
    obstacle: Option<BusObstacle>,
}

static DEVICES: Once<Devices> = Once::new();

/// Takes the devices from the tree; without a power-fail line, only those for virtio. `vault` is
/// the firmware's part of flash. `is_watched`: the OS's accesses to mediated registers are seen.
///
/// # Safety
///
/// `machine` describes this machine, no OS runs, and nothing else uses these devices.
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

/// The reason not to cut a machine with these devices.
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

kept! {
    /// The state of the devices, without the clock.
    static BUS: Bus, BusState;
    Record => uarts: Uarts = &Uarts;
    Record => fw_cfgs: FwCfgs = &FwCfgs;
    Record => flash: FlashModes = &FlashModes;
    Record => virtio: VirtioPlaces = &VirtioPlaces;
}

/// UARTs in the tree's order, without the console. Their sections are numbered from 1 on.
pub(crate) struct Uarts;

impl Keep for Uarts {
    const SECTIONS: &'static [Section] = &[UART];

    type State<'a> = ArrayVec<&'a UartState, MAX_UARTS>;

    fn save(&self, _: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        let (owner, version) = UART;
        for (number, uart) in (1..).zip(uarts()) {
            into.section(owner, number, version, &uart.capture())?;
        }
        Ok(())
    }

    fn check<'a>(
        &self,
        _: Store,
        sections: &mut StateSections<'a>,
    ) -> Result<Self::State<'a>, StateError> {
        let (owner, version) = UART;
        let missing = StateError::Payload {
            owner,
            version,
            found: 0,
        };
        let numbers = (1..).zip(uarts()).map(|(number, _)| number);
        numbers
            .map(|number| sections.take_payload(UART, number)?.ok_or(missing))
            .collect()
    }

    fn put_back(&self, _: Store, states: &Self::State<'_>) {
        for (uart, state) in uarts().iter().zip(states) {
            uart.restore(state);
        }
    }
}

/// Configuration devices in the tree's order.
pub(crate) struct FwCfgs;

impl KeepValue for FwCfgs {
    type Value = [FwCfgState];
    const SECTION: Section = (u32::from_le_bytes(*b"FWCF"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<[FwCfgState]>>, NotKept> {
        let states = platform().mediated.capture_fw_cfgs();
        states.map(Some).map_err(NotKept::Device)
    }

    fn fits(&self, states: Option<&[FwCfgState]>) -> bool {
        states.is_some_and(|states| states.len() == platform().mediated.fw_cfgs())
    }

    fn put_back(&self, states: Option<&[FwCfgState]>) {
        let states = states.unwrap_or_default();
        if let Err(address) = platform().mediated.restore_fw_cfgs(states) {
            say!("cut: the device at {address:#x} did not take its state back");
        }
    }
}

/// The modes of the banks of flash, by their numbers. The list is empty if the OS has suspended
/// its devices: its drivers set flash up again.
pub(crate) struct FlashModes;

impl KeepValue for FlashModes {
    type Value = [u8];
    const SECTION: Section = (u32::from_le_bytes(*b"CFIM"), 1);

    /// Flash reads as memory then.
    fn value(&self, saving: &Saving<'_>) -> Result<Option<impl Borrow<[u8]>>, NotKept> {
        let mut modes = ArrayVec::<u8, MAX_BANKS>::new();
        for bank in banks().iter().filter(|_| saving.vector.is_none()) {
            let mode = cfi::read_mode(&bank.registers, &bank.geometry, bank.last_word);
            modes.push(mode.map_err(|_| NotKept::Device(bank.address))?.number());
        }
        Ok(Some(modes))
    }

    fn fits(&self, modes: Option<&[u8]>) -> bool {
        modes.is_some_and(|modes| {
            let mut numbers = modes.iter();
            [0, banks().len()].contains(&modes.len())
                && numbers.all(|mode| Mode::of_number(*mode).is_some())
        })
    }

    /// The firmware may not use flash after this: the vault's bank may be the OS's, too.
    fn let_out(&self, modes: Option<&[u8]>) {
        for (bank, mode) in banks().iter().zip(modes.unwrap_or_default()) {
            if let Some(mode) = Mode::of_number(*mode) {
                cfi::set_mode(&bank.registers, &bank.geometry, mode);
            }
        }
    }
}

/// Places for virtio devices that an OS has looked at: a bit for each, in the tree's order.
pub(crate) struct VirtioPlaces;

impl KeepValue for VirtioPlaces {
    type Value = u32;
    const SECTION: Section = (u32::from_le_bytes(*b"VMIO"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<u32>>, NotKept> {
        Ok(Some(virtio::acknowledged()))
    }

    fn fits(&self, places: Option<&u32>) -> bool {
        places.is_some()
    }

    fn put_back(&self, places: Option<&u32>) {
        places
            .into_iter()
            .for_each(|places| virtio::acknowledge(*places));
    }
}

/// The clock.
pub(crate) struct KeptClock;

impl KeepValue for KeptClock {
    type Value = RtcState;
    const SECTION: Section = (u32::from_le_bytes(*b"RTCS"), 1);

    fn value(&self, _: &Saving<'_>) -> Result<Option<impl Borrow<RtcState>>, NotKept> {
        Ok(platform().time.clock_state())
    }

    fn let_out(&self, clock: Option<&RtcState>) {
        if clock.is_some_and(|clock| !platform().time.put_back_clock(clock)) {
            say!("cut: half of a time that the OS may be reading from the clock is lost");
        }
    }
}

fn uarts() -> &'static [Uart<Mmio>] {
    DEVICES.get().map_or(&[], |devices| &devices.uarts)
}

fn banks() -> &'static [Bank] {
    DEVICES.get().map_or(&[], |devices| &devices.banks)
}
