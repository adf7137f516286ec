use crate::fw_cfg::{FwCfg, RequestPlace};
use crate::goldfish::TimeAlone;
use crate::mediated::{CallerMemory, Mediator, RegisterAccess, Ruling};
use crate::plic_enables::{FixedRegister, PlicEnables};
use crate::registers::Registers;

/// Devices with mediated registers.
#[derive(Debug)]
pub enum MediatedDevice<R, P> {
    /// QEMU's configuration device.
    FwCfg(FwCfg<R, P>),
    /// The enable registers of a PLIC.
    PlicEnables(PlicEnables),
    /// A register that the OS cannot change.
    Fixed(FixedRegister),
    /// The real-time clock of a machine with domains.
    Clock(TimeAlone),
}

impl<R: Registers<u64> + Registers<u16> + Send, P: RequestPlace> Mediator for MediatedDevice<R, P> {
    fn rule(
        &mut self,
        offset: u64,
        bytes: u64,
        access: RegisterAccess,
        memory: &dyn CallerMemory,
    ) -> Ruling {
        match self {
            MediatedDevice::FwCfg(device) => device.rule(offset, bytes, access, memory),
            MediatedDevice::PlicEnables(enables) => enables.rule(offset, bytes, access, memory),
            MediatedDevice::Fixed(register) => register.rule(offset, bytes, access, memory),
            MediatedDevice::Clock(clock) => clock.rule(offset, bytes, access, memory),
        }
    }
}
