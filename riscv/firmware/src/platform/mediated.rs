//! The mediated registers of the machine, and their mediators.

use core::sync::atomic::AtomicU32;

use arrayvec::ArrayVec;
use poorwill_arch::fw_cfg::Place;
use poorwill_arch::{Mmio, guarded};
use poorwill_devicetree::{MAX_FW_CFGS, Machine};
use poorwill_drivers::fw_cfg::{FwCfg, FwCfgState};
use poorwill_drivers::mediated::{CallerMemory, MediatedRegisters, RegisterAccess, Ruling};
use poorwill_drivers::{FixedRegister, MediatedDevice, PlicEnables, TimeAlone};
use poorwill_hart::emulation::{Access, Operation};
use poorwill_memory::PhysRange;
use spin::{Mutex, Once};

pub(crate) type Device = MediatedDevice<Mmio, Place>;

type Registers = MediatedRegisters<Device>;

/// Mediated registers of the machine's PLICs, with their addresses: enable registers, and the
/// priority of machine mode's own source.
fn plic_registers(machine: &Machine) -> impl Iterator<Item = (PhysRange, Device)> {
    let plics = machine.interrupts.plics.iter().enumerate();
    plics.flat_map(move |(place, plic)| {
        let kept = machine.kept_source(place);
        let (range, enables) = PlicEnables::new(plic, kept);
        let priority = kept.map(|source| FixedRegister::priority(plic, source));
        let priority = priority.map(|(range, register)| (range, Device::Fixed(register)));
        [(range, Device::PlicEnables(enables))]
            .into_iter()
            .chain(priority)
    })
}

/// Which registers are mediated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mediates {
    /// [`plic_registers`].
    pub(crate) plics: bool,
    /// The time of the real-time clock.
    pub(crate) clock: bool,
    /// The configuration devices.
    pub(crate) fw_cfgs: bool,
}

/// Serves the OS's accesses to mediated registers.
#[derive(Debug)]
pub(crate) struct Mediated {
    registers: Mutex<Registers>,
    is_empty: bool,
}

impl Mediated {
    /// The mediated registers of the machine, which must be closed to the OS.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine, and this is called once.
    // Not inlined: see `domain::start`.
    #[inline(never)]
    pub(crate) unsafe fn start(machine: &Machine, mediates: Mediates) -> &'static Self {
        let device = |(registers, place): (&PhysRange, &'static _)| {
            // SAFETY: by the caller's contract the tree is right; it names these addresses as
            // registers.
            let mmio = unsafe { Mmio::new(registers.start) };
            let mut device = FwCfg::new(mmio, Place::new(place));
            device.start();
            (*registers, MediatedDevice::FwCfg(device))
        };
        let clock = machine.rtc.filter(|_| mediates.clock).map(TimeAlone::new);
        let clock = clock.map(|(page, clock)| (page, MediatedDevice::Clock(clock)));
        let devices = machine.fw_cfg.iter().filter(|_| mediates.fw_cfgs);
        let devices = devices.zip(&MEDIATED.requests).map(device);
        let plics = plic_registers(machine).filter(|_| mediates.plics);
        let registers =
            MediatedRegisters::new(devices.chain(plics).chain(clock), &machine.machine_only);
        MEDIATED.registers.call_once(|| Mediated {
            is_empty: registers.is_empty(),
            registers: Mutex::new(registers),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(super) fn fw_cfgs(&self) -> usize {
        fw_cfgs(&mut self.registers.lock()).count()
    }

    /// Captures the OS's state of the configuration devices; the OS runs on no hart.
    ///
    /// # Errors
    ///
    /// Address of a device whose state cannot be restored.
    pub(super) fn capture_fw_cfgs(&self) -> Result<ArrayVec<FwCfgState, MAX_FW_CFGS>, u64> {
        let mut registers = self.registers.lock();
        let states =
            fw_cfgs(&mut registers).map(|(address, device)| device.capture().ok_or(address));
        states.collect()
    }

    /// Restores the state.
    ///
    /// # Errors
    ///
    /// Address of a device that has not accepted it.
    pub(super) fn restore_fw_cfgs(&self, states: &[FwCfgState]) -> Result<(), u64> {
        let mut registers = self.registers.lock();
        let mut devices = fw_cfgs(&mut registers).zip(states);
        let not_taken = devices
            .find_map(|((address, device), state)| (!device.put_back(state)).then_some(address));
        not_taken.map_or(Ok(()), Err)
    }

    /// Makes an access for the OS with this memory. Returns the loaded value, or 0 after a store;
    /// `None` if the access is not mediated or is refused.
    pub(crate) fn serve(&self, access: &Access, memory: &dyn CallerMemory) -> Option<u64> {
        let kind = match access.operation {
            Operation::Load => RegisterAccess::Load,
            Operation::Store(value) => RegisterAccess::Store(value),
        };
        let mut registers = self.registers.lock();
        match registers.rule(access.address, access.bytes, kind, memory) {
            // SAFETY: a device register that the OS may use; no mediator refused the access.
            Ruling::Pass => unsafe { guarded::make(access) },
            Ruling::Store(value) => {
                let mut allowed = *access;
                allowed.operation = Operation::Store(value);
                // SAFETY: as above, with the mediator's value.
                unsafe { guarded::make(&allowed) }
            }
            Ruling::Done => Some(0),
            Ruling::Fault => None,
        }
    }
}

/// The configuration devices among them, with their addresses.
fn fw_cfgs(registers: &mut Registers) -> impl Iterator<Item = (u64, &mut FwCfg<Mmio, Place>)> {
    registers
        .devices_mut()
        .filter_map(|(range, device)| match device {
            MediatedDevice::FwCfg(device) => Some((range.start, device)),
            _ => None,
        })
}

/// The mediated registers of the machine.
struct MediatedHere {
    registers: Once<Mediated>,
    /// Memory for a request of each configuration device.
    requests: [[AtomicU32; 4]; MAX_FW_CFGS],
}

static MEDIATED: MediatedHere = MediatedHere {
    registers: Once::new(),
    requests: [const { [const { AtomicU32::new(0) }; 4] }; MAX_FW_CFGS],
};
