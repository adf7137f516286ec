//! The registers that machine mode accesses for the OS, and what rules over each.

use core::sync::atomic::AtomicU32;

use poorwill_arch::fw_cfg::Place;
use poorwill_arch::{Mmio, guarded};
use poorwill_devicetree::{MAX_FW_CFGS, Machine};
use poorwill_drivers::fw_cfg::FwCfg;
use poorwill_drivers::mediated::{CallerMemory, MediatedRegisters, RegisterAccess, Ruling};
use poorwill_drivers::{MediatedDevice, PlicEnables};
use poorwill_hart::emulation::{Access, Operation};
use poorwill_memory::PhysRange;
use spin::{Mutex, Once};

type Registers = MediatedRegisters<MediatedDevice<Mmio, Place>>;

/// What enables sources at the machine's PLICs, and where that lies.
pub(super) fn plic_enables(machine: &Machine) -> impl Iterator<Item = (PhysRange, PlicEnables)> {
    machine.interrupts.plics.iter().map(PlicEnables::new)
}

/// What accesses of the OS go through.
#[derive(Debug)]
pub(crate) struct Mediated {
    registers: Mutex<Registers>,
    is_empty: bool,
}

impl Mediated {
    /// The mediated registers of the machine, which must be closed to the OS; among them,
    /// if `has_enables`, those of [`plic_enables`].
    ///
    /// # Safety
    ///
    /// `machine` describes this machine, and this is called once.
    // A function of its own: see `domain::start`.
    #[inline(never)]
    pub(super) unsafe fn start(machine: &Machine, has_enables: bool) -> &'static Self {
        static MEDIATED: Once<Mediated> = Once::new();
        let device = |(registers, place): (&PhysRange, &'static _)| {
            // SAFETY: the tree, which is right, says the caller, names these addresses as
            // registers of this machine.
            let mmio = unsafe { Mmio::new(registers.start) };
            let device = FwCfg::new(mmio, Place::new(place));
            (*registers, MediatedDevice::FwCfg(device))
        };
        let devices = machine.fw_cfg.iter().zip(&REQUESTS).map(device);
        let enables = plic_enables(machine).filter(|_| has_enables);
        let enables = enables.map(|(range, enables)| (range, MediatedDevice::PlicEnables(enables)));
        let registers = MediatedRegisters::new(devices.chain(enables), &machine.machine_only);
        MEDIATED.call_once(|| Mediated {
            is_empty: registers.is_empty(),
            registers: Mutex::new(registers),
        })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
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
            Ruling::Done => Some(0),
            Ruling::Fault => None,
        }
    }
}

/// A place for one request of each device, which reads and writes there.
static REQUESTS: [[AtomicU32; 4]; MAX_FW_CFGS] =
    [const { [const { AtomicU32::new(0) }; 4] }; MAX_FW_CFGS];
