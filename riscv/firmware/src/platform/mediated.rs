//! The registers that machine mode accesses for the OS, and what rules over each.

use core::sync::atomic::AtomicU32;

use arrayvec::ArrayVec;
use poorwill_arch::fw_cfg::Place;
use poorwill_arch::{Mmio, guarded};
use poorwill_devicetree::{MAX_FW_CFGS, Machine, PowerFailInput};
use poorwill_drivers::fw_cfg::{FwCfg, FwCfgState};
use poorwill_drivers::mediated::{CallerMemory, MediatedRegisters, RegisterAccess, Ruling};
use poorwill_drivers::{FixedRegister, MediatedDevice, PlicEnables};
use poorwill_hart::emulation::{Access, Operation};
use poorwill_memory::PhysRange;
use spin::{Mutex, Once};

/// A device with registers that are watched.
pub(super) type Device = MediatedDevice<Mmio, Place>;

type Registers = MediatedRegisters<Device>;

/// What of the machine's PLICs is watched, and where that lies: what enables sources, and the
/// priority of a source that machine mode has to itself.
pub(super) fn plic_registers(machine: &Machine) -> impl Iterator<Item = (PhysRange, Device)> {
    let line = machine.power_fail.map(|line| line.input);
    let kept = move |place| match line {
        Some(PowerFailInput::Plic {
            place: of, source, ..
        }) if of == place => Some(source),
        _ => None,
    };
    let plics = machine.interrupts.plics.iter().enumerate();
    plics.flat_map(move |(place, plic)| {
        let (range, enables) = PlicEnables::new(plic, kept(place));
        let priority = kept(place).map(|source| FixedRegister::priority(plic, source));
        let priority = priority.map(|(range, register)| (range, Device::Fixed(register)));
        [(range, Device::PlicEnables(enables))]
            .into_iter()
            .chain(priority)
    })
}

/// What accesses of the OS go through.
#[derive(Debug)]
pub(crate) struct Mediated {
    registers: Mutex<Registers>,
    is_empty: bool,
}

impl Mediated {
    /// The mediated registers of the machine, which must be closed to the OS; among them,
    /// if `has_plics`, those of [`plic_registers`].
    ///
    /// # Safety
    ///
    /// `machine` describes this machine, and this is called once.
    // A function of its own: see `domain::start`.
    #[inline(never)]
    pub(super) unsafe fn start(machine: &Machine, has_plics: bool) -> &'static Self {
        static MEDIATED: Once<Mediated> = Once::new();
        let device = |(registers, place): (&PhysRange, &'static _)| {
            // SAFETY: the tree, which is right, says the caller, names these addresses as
            // registers of this machine.
            let mmio = unsafe { Mmio::new(registers.start) };
            let mut device = FwCfg::new(mmio, Place::new(place));
            device.start();
            (*registers, MediatedDevice::FwCfg(device))
        };
        let devices = machine.fw_cfg.iter().zip(&REQUESTS).map(device);
        let plics = plic_registers(machine).filter(|_| has_plics);
        let registers = MediatedRegisters::new(devices.chain(plics), &machine.machine_only);
        MEDIATED.call_once(|| Mediated {
            is_empty: registers.is_empty(),
            registers: Mutex::new(registers),
        })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// How many configuration devices there are.
    pub(super) fn fw_cfgs(&self) -> usize {
        fw_cfgs(&mut self.registers.lock()).count()
    }

    /// What the OS, which runs on no hart, has left in the configuration devices.
    ///
    /// # Errors
    ///
    /// The address of one that is in a state that cannot be put back.
    pub(super) fn capture_fw_cfgs(&self) -> Result<ArrayVec<FwCfgState, MAX_FW_CFGS>, u64> {
        let mut registers = self.registers.lock();
        let states =
            fw_cfgs(&mut registers).map(|(address, device)| device.capture().ok_or(address));
        states.collect()
    }

    /// Puts it back.
    ///
    /// # Errors
    ///
    /// The address of one that has not taken it.
    pub(super) fn restore_fw_cfgs(&self, states: &[FwCfgState]) -> Result<(), u64> {
        let mut registers = self.registers.lock();
        let mut devices = fw_cfgs(&mut registers).zip(states);
        let not_taken = devices
            .find_map(|((address, device), state)| (!device.put_back(state)).then_some(address));
        not_taken.map_or(Ok(()), Err)
    }

    /// Makes an access for the OS whose memory is given, and returns what was loaded, or
    /// anything after a store. `None` when it is not mediated, or refused.
    pub(crate) fn serve(&self, access: &Access, memory: &dyn CallerMemory) -> Option<u64> {
        let kind = match access.operation {
            Operation::Load => RegisterAccess::Load,
            Operation::Store(value) => RegisterAccess::Store(value),
        };
        let mut registers = self.registers.lock();
        match registers.rule(access.address, access.bytes, kind, memory) {
            // SAFETY: a register of a device's that is the OS's to use, and no mediator had
            // anything against it.
            Ruling::Pass => unsafe { guarded::make(access) },
            Ruling::Store(value) => {
                let mut allowed = *access;
                allowed.operation = Operation::Store(value);
                // SAFETY: likewise, with a value that it has nothing against.
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

/// A place for one request of each device, which reads and writes there.
static REQUESTS: [[AtomicU32; 4]; MAX_FW_CFGS] =
    [const { [const { AtomicU32::new(0) }; 4] }; MAX_FW_CFGS];
