//! The devices on the bus of memory that lose their state with the power: UARTs, flash, the
//! configuration device, the clock, and slots for virtio devices. `devicetree::Census` classifies
//! each node of the tree. A suspended OS's drivers set up all of these again, with two exceptions:
//! Linux's driver of the clock does not, and that of UARTs does not with ACPI.

use core::borrow::Borrow;
use core::fmt;

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{Machine, NodeName};
use poorwill_drivers::fw_cfg::FwCfgState;
use poorwill_drivers::{FlashBank, RtcState};
use poorwill_medium::cfi::{self, Cfi, CfiError, Geometry, Mode};
use poorwill_memory::PhysRange;
use poorwill_sleep::NotKept;
use spin::Once;
use thiserror::Error;

use super::console::say;
use super::uarts::{self, UartStates};
use super::wait_clock::WaitClock;
use super::{platform, virtio};
use poorwill_state::{KeepValue, Saving, Section, Store, kept};

/// Maximum number of banks of flash, the same as in the device tree.
const MAX_BANKS: usize = 4;

/// Why a machine with these devices cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum BusObstacle {
    /// A device has no keeper.
    #[error("nothing keeps the state of {name}{}", Others(*.others))]
    Unkept {
        /// The name of the first such node.
        name: NodeName,
        /// The number of further such nodes.
        others: usize,
    },
    /// Without PMP the OS's accesses to the configuration device are not mediated, so its state is
    /// unknown.
    #[error(
        "without PMP the firmware cannot know which item of the device at {0:#x} the OS has selected"
    )]
    Unwatched(u64),
    /// A bank of flash cannot be identified, or reports an error.
    #[error("the flash at {0:#x} cannot be kept: {1}")]
    Flash(u64, CfiError),
    /// A bank of flash has state other than its mode.
    #[error("the flash at {0:#x} has locks or settings that a power-on resets")]
    FlashForgets(u64),
}

/// Shows the number of further devices; shows nothing for 0.
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
    /// Offset of the last word in the bank that belongs to the OS.
    last_word: u64,
}

/// The devices that only a cut keeps.
#[derive(Debug)]
struct ForCuts {
    banks: ArrayVec<Bank, MAX_BANKS>,
    /// Names of devices without a keeper.
    unkept: ArrayVec<NodeName, { poorwill_devicetree::MAX_NAMED }>,
    obstacle: Option<BusObstacle>,
}

/// Absent without a power-fail line.
static FOR_CUTS: Once<ForCuts> = Once::new();

/// Takes the devices from the tree. Without a power-fail line, takes only those that a sleep needs.
/// `vault` is the firmware's part of flash. `is_watched`: the OS's accesses to the configuration
/// device are mediated. `owner` gives the index of the domain that may access an address.
///
/// # Safety
///
/// `machine` describes this machine, no OS runs, and nothing else uses these devices.
// Not inlined: see `domain::start`.
#[inline(never)]
pub(crate) unsafe fn start(
    machine: &Machine,
    vault: Option<PhysRange>,
    is_watched: bool,
    time: &Time,
    owner: impl Fn(u64) -> u8,
) {
    // SAFETY: passed on to the caller.
    unsafe { virtio::start(machine) };
    // SAFETY: passed on to the caller.
    unsafe { uarts::start(machine, owner) };
    if machine.power_fail.is_some() {
        // SAFETY: passed on to the caller.
        FOR_CUTS.call_once(|| unsafe { for_cuts(machine, vault, is_watched, time) });
    }
}

/// The devices that only a cut keeps.
///
/// # Safety
///
/// As for [`start`].
unsafe fn for_cuts(
    machine: &Machine,
    vault: Option<PhysRange>,
    is_watched: bool,
    time: &Time,
) -> ForCuts {
    let census = &machine.census;
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
            // SAFETY: by the caller's contract the tree is right; it names a bank of flash there.
            let registers =
                FlashBank::new(unsafe { Mmio::new(range.start) }, range.length(), width);
            let last_word = last_word(machine, vault, range);
            match bank(registers, range.start, last_word, time) {
                Ok(bank) => banks.push(bank),
                Err(reason) => obstacle = obstacle.or(Some(reason)),
            }
        }
    }
    ForCuts {
        banks,
        unkept: census.unkept.clone(),
        obstacle,
    }
}

/// The banks that belong to the OS, at least in part.
fn os_banks(machine: &Machine, vault: Option<PhysRange>) -> impl Iterator<Item = PhysRange> {
    let flash = machine.flash.iter();
    flash.flat_map(move |flash| {
        let is_os = move |bank: &&PhysRange| flash.of_os(vault).any(|part| part.overlaps(bank));
        flash.banks.iter().filter(is_os).copied()
    })
}

/// The offset of the last word in a bank that belongs to the OS.
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

/// The reason why a machine with these devices cannot be cut.
pub(crate) fn obstacle() -> Option<BusObstacle> {
    FOR_CUTS.get()?.obstacle
}

/// The names of the first devices without a keeper.
pub(crate) fn unkept() -> impl Iterator<Item = &'static NodeName> {
    FOR_CUTS
        .get()
        .into_iter()
        .flat_map(|devices| &devices.unkept)
}

kept! {
    /// The state of the devices, without the clock and the UARTs.
    struct Bus of _domain, BusState;
    Record => fw_cfgs: FwCfgs = FwCfgs;
    Record => flash: FlashModes = FlashModes;
    Record => virtio: VirtioPlaces = VirtioPlaces;
}

/// The devices' state from an image, for the waking hart.
#[derive(Debug, Default)]
pub(crate) struct WakingDevices {
    uarts: UartStates,
    clock: Option<RtcState>,
}

impl WakingDevices {
    /// Copies the checked state.
    pub(crate) fn new(uarts: &UartStates, clock: Option<&RtcState>) -> Self {
        WakingDevices {
            uarts: uarts.clone(),
            clock: clock.copied(),
        }
    }

    /// Restores the devices. The OS's interrupts must be restored, since a device may interrupt at
    /// once.
    pub(crate) fn restore(&self) {
        if let Some(clock) = &self.clock {
            platform().time.put_back_alarm(clock);
        }
        uarts::restore(&self.uarts);
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
            say!("cut: the device at {address:#x} did not accept its restored state");
        }
    }
}

/// The modes of the flash banks, in their order. The list is empty if the OS has suspended its
/// devices: its drivers set flash up again.
pub(crate) struct FlashModes;

impl KeepValue for FlashModes {
    type Value = [u8];
    const SECTION: Section = (u32::from_le_bytes(*b"CFIM"), 1);

    /// Captures the modes, and sets each bank to read as memory.
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

    /// The firmware must not use flash after this, since the vault's bank may have a part of the
    /// OS.
    fn let_out(&self, modes: Option<&[u8]>) {
        for (bank, mode) in banks().iter().zip(modes.unwrap_or_default()) {
            if let Some(mode) = Mode::of_number(*mode) {
                cfi::set_mode(&bank.registers, &bank.geometry, mode);
            }
        }
    }
}

/// The slots in which an OS has noticed a virtio device without using it: a bit for each, in the
/// tree's order.
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

/// The real-time clock. Where its time is mediated, no OS has state there.
pub(crate) struct KeptClock {
    /// The index of the domain that may have it.
    pub(crate) domain: u8,
}

impl KeepValue for KeptClock {
    type Value = RtcState;
    const SECTION: Section = (u32::from_le_bytes(*b"RTCS"), 1);

    fn value(&self, saving: &Saving<'_>) -> Result<Option<impl Borrow<RtcState>>, NotKept> {
        let is_os = self.domain == 0 && platform().clock_page.is_none();
        let state = platform().time.clock_state().filter(|_| is_os);
        Ok(match saving.store {
            Store::Image => state.and_then(RtcState::of_suspended),
            Store::Record => state,
        })
    }

    /// Restores it after a cut. After an image the waking hart does that.
    fn let_out(&self, clock: Option<&RtcState>) {
        if clock.is_some_and(|clock| !platform().time.put_back_clock(clock)) {
            say!(
                "cut: the clock's latched half of a time is lost: the OS may once read a wrong time"
            );
        }
    }
}

fn banks() -> &'static [Bank] {
    FOR_CUTS.get().map_or(&[], |devices| &devices.banks)
}
