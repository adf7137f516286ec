use super::{ConfigSpace, Function, HostBridge, Location, PciError};
use crate::Clock;

/// A controller on loan: powered, its registers reachable by the CPU, free to
/// access memory, its interrupts off. [`Claim::release`] gives it back.
#[derive(Debug)]
#[must_use = "a controller that is claimed must be released"]
pub struct Claim {
    function: Function,
    cpu_address: u64,
    length: u64,
}

/// Makes the controller at `location` work, whatever state it and the bridges
/// above it are in. Addresses that are configured and work are kept; otherwise
/// some are chosen that nothing else on the bus answers to.
///
/// One claim at a time: bridges may be shared, and what one claim found is what
/// another changed.
///
/// # Errors
///
/// See [`PciError`]; everything is as before then.
pub fn claim(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    host: &HostBridge,
    location: &Location,
) -> Result<Claim, PciError> {
    let _ = (config, clock, host, location);
    todo!()
}

impl Claim {
    /// The controller's address on the bus while it is claimed.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }

    /// Where the CPU reaches the controller's registers (BAR 0).
    #[must_use]
    pub fn cpu_address(&self) -> u64 {
        self.cpu_address
    }

    /// How many bytes of registers there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Takes the right to access memory from the controller: the last resort
    /// when it does not stop by itself (see
    /// [`Registers::cut_dma`](crate::nvme::Registers::cut_dma)).
    pub fn cut_dma(&self, config: &impl ConfigSpace) {
        let _ = config;
        todo!()
    }

    /// Puts everything back that [`claim`] changed, in reverse order: at
    /// power-on the bus is as if never touched, after a failed sleep it is as
    /// the OS left it.
    pub fn release(self, config: &impl ConfigSpace, clock: &impl Clock) {
        let _ = (config, clock);
        todo!()
    }
}
