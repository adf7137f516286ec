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

/// Sets the machine's switches for power-off and reset.
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

/// Why the power is switched off. Where memory or a medium has the state of the OS, the reason
/// carries the proof.
#[derive(Debug)]
#[expect(dead_code, reason = "a proof has nothing to read")]
pub(crate) enum PowerOff {
    /// The OS asks for it.
    Asked,
    /// The OS sleeps: its image is committed.
    Asleep(Committed),
    /// The OS sleeps, and the commit of its image may have failed.
    InDoubt,
    /// The machine is cut.
    Cut(CutCommitted),
    /// The power fails, and the machine is not cut.
    NotCut,
}

/// Switches the power off.
pub(crate) fn switch_off(why: PowerOff) -> ! {
    #[cfg(feature = "irqs-off")]
    say_irqs_off();
    _ = why;
    write_syscon(RESET_CONTROL.get().and_then(|control| control.power_off))
}

/// Prints how long interrupts were off at most, by place, since the last call.
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

/// Resets a machine that cannot go on, or switches it off where it has no reset.
pub(crate) fn fatal() -> ! {
    write_syscon(
        RESET_CONTROL
            .get()
            .and_then(|control| control.reset.or(control.power_off)),
    )
}

/// Polls of a switch before it counts as broken: about a second at 1 GHz.
const PATIENCE: u32 = 200_000_000;

/// Writes the register. Without one, or with one that does nothing, the hart says so and stops.
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
