//! Power-off and reset.

use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::Machine;
use poorwill_drivers::Switch;
use poorwill_sleep::cut::CutCommitted;
use poorwill_sleep::{MAX_RESETS, ResetRow};
use poorwill_store::Committed;
use spin::Once;

use super::console::{self, say};
use super::devices::uptime_ms;
use super::ram::{leave_reset_row, reset_row};
use crate::entry;

#[derive(Debug)]
struct Switches {
    power_off: Option<Switch<Mmio>>,
    reset: Option<Switch<Mmio>>,
    /// `None`: the tree names no time.
    time: Option<Time>,
    /// The console has said that there is no power-off.
    has_said: AtomicBool,
}

static SWITCHES: Once<Switches> = Once::new();

/// Sets the switches for power-off and reset.
///
/// # Safety
///
/// `machine` describes this machine.
pub(crate) unsafe fn start(machine: &Machine) {
    let switch = |described: &poorwill_devicetree::Switch| {
        // SAFETY: by the caller's contract the tree is right; it names registers at this address.
        let registers = unsafe { Mmio::new(described.address()) };
        Switch::new(registers, described)
    };
    let has_time = machine.timebase_hz > 0 && !machine.mtime.is_empty();
    SWITCHES.call_once(|| Switches {
        power_off: machine.switches.power_off.as_ref().map(switch),
        reset: machine.switches.reset.as_ref().map(switch),
        // SAFETY: passed on to the caller.
        time: has_time.then(|| unsafe { Time::new(machine) }),
        has_said: AtomicBool::new(false),
    });
}

/// Returns whether the machine has a switch for power-off.
pub(crate) fn can_power_off() -> bool {
    let switches = SWITCHES.get();
    switches.is_some_and(|switches| switches.power_off.is_some())
}

/// Says, once, that an OS asks for a power-off that the machine does not have. Linux reports no error.
pub(crate) fn say_no_power_off() {
    let switches = SWITCHES.get();
    if switches.is_some_and(|switches| !switches.has_said.swap(true, Ordering::Relaxed)) {
        say!("the OS asks for a power-off, but the machine has no switch for it: the OS stays on");
    }
}

/// Returns whether the machine has a switch for reset.
pub(crate) fn can_reset() -> bool {
    let switches = SWITCHES.get();
    switches.is_some_and(|switches| switches.reset.is_some())
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
    let power_off = SWITCHES.get().and_then(|switches| switches.power_off);
    // After a cut nothing may be written to memory.
    if matches!(why, PowerOff::Cut(_)) {
        operate_at_once(power_off)
    }
    end_reset_row();
    operate(power_off)
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
    operate(SWITCHES.get().and_then(|switches| switches.reset))
}

/// Resets a machine that has left a note for its next start. Without a switch for reset, switches it
/// off.
pub(crate) fn restart() -> ! {
    let switches = SWITCHES.get();
    operate(switches.and_then(|switches| switches.reset.or(switches.power_off)))
}

/// Resets a machine that cannot continue; the console has the error. Without a switch for reset,
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

/// Stops a machine that could not start after a reset, either: switches it off. Without a switch
/// for that, this hart halts; the other ones wait in entry.S.
pub(crate) fn stop() -> ! {
    operate(SWITCHES.get().and_then(|switches| switches.power_off))
}

fn end_reset_row() {
    if reset_row() != ResetRow::default() {
        leave_reset_row(ResetRow::default());
    }
}

/// Number of polls in about a millisecond at 1 GHz, on a machine without a clock.
const POLLS: u64 = 200_000;

/// Time for a switch to act before it counts as broken, in ms.
const PATIENCE_MS: u32 = 1000;

/// Operates the switch, after the console's last byte has left.
fn operate(switch: Option<Switch<Mmio>>) -> ! {
    console::drain();
    operate_at_once(switch)
}

/// Operates the switch. If it is absent or has no effect, the hart reports that and stops.
fn operate_at_once(switch: Option<Switch<Mmio>>) -> ! {
    if let Some(switch) = switch {
        switch.operate(pause);
        pause(PATIENCE_MS);
        say!("the switch for power-off or reset has no effect; stopped");
    } else {
        say!("the machine lacks the switch for power-off or reset; stopped");
    }
    entry::halt()
}

/// Waits for this time, in ms.
fn pause(ms: u32) {
    let time = SWITCHES.get().and_then(|switches| switches.time.as_ref());
    let Some(time) = time else {
        return (0..u64::from(ms) * POLLS).for_each(|_| core::hint::spin_loop());
    };
    let began = time.ticks();
    while time.milliseconds_since(began) < u64::from(ms) {
        core::hint::spin_loop();
    }
}
