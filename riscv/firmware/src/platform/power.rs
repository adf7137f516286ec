//! Power-off and reset.

use poorwill_arch::Mmio;
use poorwill_devicetree::Machine;
use poorwill_drivers::Syscon;
use poorwill_sleep::cut::CutCommitted;
use poorwill_sleep::{MAX_RESETS, ResetRow};
use poorwill_store::Committed;
use spin::Once;

use super::console::say;
use super::devices::uptime_ms;
use super::ram::{leave_reset_row, reset_row};
use crate::entry;

#[derive(Clone, Copy, Debug)]
struct ResetControl {
    power_off: Option<Syscon<Mmio>>,
    reset: Option<Syscon<Mmio>>,
}

static RESET_CONTROL: Once<ResetControl> = Once::new();

/// Sets the registers for power-off and reset.
///
/// # Safety
///
/// `machine` describes this machine.
pub(crate) unsafe fn start(machine: &Machine) {
    let syscon = |described: poorwill_devicetree::Syscon| {
        // SAFETY: by the caller's contract the tree is right; it names this address as a register.
        let register = unsafe { Mmio::new(described.address) };
        Syscon::new(register, &described)
    };
    RESET_CONTROL.call_once(|| ResetControl {
        power_off: machine.power_off.map(syscon),
        reset: machine.reset.map(syscon),
    });
}

/// Returns whether the machine has a register for power-off.
pub(crate) fn can_power_off() -> bool {
    let control = RESET_CONTROL.get();
    control.is_some_and(|control| control.power_off.is_some())
}

/// Returns whether the machine has a register for reset.
pub(crate) fn can_reset() -> bool {
    let control = RESET_CONTROL.get();
    control.is_some_and(|control| control.reset.is_some())
}

/// Why the power is switched off. If memory or a medium holds the OS's state, the reason carries
/// the proof of its commit.
#[derive(Debug)]
#[expect(dead_code, reason = "a proof has nothing to read")]
pub(crate) enum PowerOff {
    /// The OS asks for it.
    Asked,
    /// The OS sleeps: its image is committed.
    Asleep(Committed),
    /// The OS sleeps, but the commit of its image may have failed.
    InDoubt,
    /// The machine is cut.
    Cut(CutCommitted),
    /// The power fails, and no cut was made.
    NotCut,
}

/// Switches the power off.
pub(crate) fn switch_off(why: PowerOff) -> ! {
    #[cfg(feature = "irqs-off")]
    say_irqs_off();
    // After a cut nothing may be written to memory.
    if !matches!(why, PowerOff::Cut(_)) {
        end_reset_row();
    }
    write_syscon(RESET_CONTROL.get().and_then(|control| control.power_off))
}

/// Prints the longest times with interrupts off since the last call, by place.
#[cfg(feature = "irqs-off")]
pub(crate) fn say_irqs_off() {
    for (from, to, instructions) in poorwill_arch::irqs_off::take() {
        say!("interrupts off from={from} to={to} instructions={instructions}");
    }
}

/// Resets the machine at the OS's request.
pub(crate) fn reset() -> ! {
    end_reset_row();
    write_syscon(RESET_CONTROL.get().and_then(|control| control.reset))
}

/// Resets a machine that has left a note for its next start. Without a reset register, switches it
/// off.
pub(crate) fn restart() -> ! {
    let control = RESET_CONTROL.get();
    write_syscon(control.and_then(|control| control.reset.or(control.power_off)))
}

/// Resets a machine that cannot continue; the console has the error. Without a reset register,
/// switches it off. After too many resets in a row the machine stops.
pub(crate) fn fatal() -> ! {
    match reset_row().with_reset(uptime_ms()) {
        Some(row) => {
            leave_reset_row(row);
            restart()
        }
        None => {
            // A machine that is switched on again starts again.
            end_reset_row();
            say!("{MAX_RESETS} resets in a row have not helped; stopped");
            stop()
        }
    }
}

/// Stops a machine that could not start after a reset, either: switches it off. Without a register
/// for that, this hart halts; the other ones wait in entry.S.
pub(crate) fn stop() -> ! {
    match RESET_CONTROL.get().and_then(|control| control.power_off) {
        Some(power_off) => write_syscon(Some(power_off)),
        None => {
            say!("the machine has no register for power-off; stopped");
            entry::halt()
        }
    }
}

fn end_reset_row() {
    if reset_row() != ResetRow::default() {
        leave_reset_row(ResetRow::default());
    }
}

/// Number of polls of a switched-off machine before the switch counts as broken: about a second at
/// 1 GHz.
const PATIENCE: u32 = 200_000_000;

/// Writes the register. If it is absent or has no effect, the hart reports that and stops.
fn write_syscon(syscon: Option<Syscon<Mmio>>) -> ! {
    if let Some(syscon) = syscon {
        syscon.write();
        (0..PATIENCE).for_each(|_| core::hint::spin_loop());
        say!("the write to the power-off or reset register has no effect; stopped");
    } else {
        say!("the machine has no register for power-off or reset; stopped");
    }
    entry::halt()
}
