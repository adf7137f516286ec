//! Power-off and reset.

use poorwill_arch::Mmio;
use poorwill_devicetree::Machine;
use poorwill_drivers::Syscon;
use poorwill_sleep::cut::CutCommitted;
use poorwill_store::Committed;
use spin::Once;

use super::console::say;
use crate::entry;

#[derive(Clone, Copy, Debug)]
struct ResetControl {
    power_off: Option<Syscon<Mmio>>,
    reset: Option<Syscon<Mmio>>,
}

static RESET_CONTROL: Once<ResetControl> = Once::new();

/// Learns how the machine is switched off and reset.
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
    RESET_CONTROL.call_once(|| ResetControl {
        power_off: machine.power_off.map(syscon),
        reset: machine.reset.map(syscon),
    });
}

/// Whether the power can be switched off.
pub(crate) fn can_power_off() -> bool {
    RESET_CONTROL
        .get()
        .is_some_and(|control| control.power_off.is_some())
}

/// Whether the machine can be reset.
pub(crate) fn can_reset() -> bool {
    RESET_CONTROL
        .get()
        .is_some_and(|control| control.reset.is_some())
}

/// Turns the power off, at the OS's wish.
pub(crate) fn power_off() -> ! {
    #[cfg(feature = "irqs-off")]
    say_irqs_off();
    write_syscon(RESET_CONTROL.get().and_then(|control| control.power_off))
}

/// Turns the power off behind a sleep. That the image is committed is what
/// the argument proves.
pub(crate) fn power_off_asleep(_: Committed) -> ! {
    power_off()
}

/// Turns the power off behind a cut, likewise.
pub(crate) fn power_off_cut(_: CutCommitted) -> ! {
    power_off()
}

/// Says how long interrupts were off at most, by place, since it was last asked.
#[cfg(feature = "irqs-off")]
pub(crate) fn say_irqs_off() {
    for (from, to, instructions) in poorwill_arch::irqs_off::take() {
        say!("interrupts off from={from} to={to} instructions={instructions}");
    }
}

/// Resets the machine.
pub(crate) fn reset() -> ! {
    write_syscon(RESET_CONTROL.get().and_then(|control| control.reset))
}

/// Ends a machine that cannot go on: a reset, or else power-off.
pub(crate) fn fatal() -> ! {
    write_syscon(
        RESET_CONTROL
            .get()
            .and_then(|control| control.reset.or(control.power_off)),
    )
}

/// How often a switch is waited for: about a second at a GHz.
const PATIENCE: u32 = 200_000_000;

/// Writes the register. Hardware without one, or one that does nothing, leaves the hart
/// asleep with interrupts off; there is nothing else that it could do, but to say so.
fn write_syscon(syscon: Option<Syscon<Mmio>>) -> ! {
    if let Some(syscon) = syscon {
        syscon.write();
        (0..PATIENCE).for_each(|_| core::hint::spin_loop());
        say!("the machine's switch does nothing; stopped");
    } else {
        say!("the machine has no such switch; stopped");
    }
    entry::park()
}
