//! Power-off and reset.

use poorwill_devicetree::Machine;
use poorwill_drivers::Syscon;
use poorwill_store::Committed;
use spin::Once;

use super::mmio::Mmio;
use crate::arch;

#[derive(Clone, Copy, Debug)]
struct Switches {
    power_off: Option<Syscon<Mmio>>,
    reset: Option<Syscon<Mmio>>,
}

static SWITCHES: Once<Switches> = Once::new();

/// Learns how the machine is switched.
///
/// # Safety
///
/// `machine` describes this machine.
pub(crate) unsafe fn start(machine: &Machine) {
    let syscon = |described: poorwill_devicetree::Syscon| {
        // SAFETY: the tree, which is right, says the caller, names this address as
        // a register of this machine.
        let register = unsafe { Mmio::new(described.address) };
        Syscon::new(register, &described)
    };
    SWITCHES.call_once(|| Switches {
        power_off: machine.power_off.map(syscon),
        reset: machine.reset.map(syscon),
    });
}

/// Whether the power can be switched off.
pub(crate) fn can_power_off() -> bool {
    SWITCHES
        .get()
        .is_some_and(|switches| switches.power_off.is_some())
}

/// Whether the machine can be reset.
pub(crate) fn can_reset() -> bool {
    SWITCHES
        .get()
        .is_some_and(|switches| switches.reset.is_some())
}

/// Switches the power off, at the OS's wish.
pub(crate) fn power_off() -> ! {
    throw(SWITCHES.get().and_then(|switches| switches.power_off))
}

/// Switches the power off behind a sleep. That the image is committed is what
/// the argument proves.
pub(crate) fn power_off_asleep(_: Committed) -> ! {
    power_off()
}

/// Resets the machine.
pub(crate) fn reset() -> ! {
    throw(SWITCHES.get().and_then(|switches| switches.reset))
}

/// Ends what cannot go on: a reset, or else power-off.
pub(crate) fn give_up() -> ! {
    throw(
        SWITCHES
            .get()
            .and_then(|switches| switches.reset.or(switches.power_off)),
    )
}

/// Writes the switch. Hardware that has no switch, or whose switch takes its
/// time, finds the hart asleep with interrupts off; there is nothing left that
/// it could do.
fn throw(switch: Option<Syscon<Mmio>>) -> ! {
    if let Some(switch) = switch {
        switch.write();
    }
    arch::park()
}
