//! Chooses the hart that boots the machine, and the hart that the next stage starts on.
//!
//! The first hart to arrive boots the machine, if it can run the OS, has a domain, and the tree's
//! `cold-boot-harts` allow it. The next stage starts on the hart that the previous stage prefers, if
//! the same is true of that hart and it has arrived.

use poorwill_arch::Time;
use poorwill_arch::ipi::Ipi;
use poorwill_devicetree::Machine;
use poorwill_domain::FwDynamic;
use poorwill_hart::IpiDevice;

use super::error::BootError;
use crate::domain::LiveDomain;
use crate::entry::offer;
use crate::hart::{self, Hart};
use crate::platform::console::say;
use crate::platform::platform;

/// Maximum wait for a hart that should have arrived. Harts leave reset together; under QEMU with
/// one thread a hart may wait 100 ms for its turn.
const PATIENCE_NS: u64 = 250_000_000;

/// Number of offers to each hart before the start fails. With them a late hart has 5 s.
const ROUNDS: u32 = 20;

/// Lets one of the harts `usable` boot the machine, since `own` may not. This hart then waits as if
/// it had arrived later. Returns if no hart takes the start.
///
/// # Safety
///
/// The calling hart is alone on the machine, and `machine` describes it.
pub(crate) unsafe fn hand_over(
    own: u64,
    machine: &Machine,
    usable: &[u64],
    stage: &FwDynamic,
    [tree, information]: [usize; 2],
) {
    // SAFETY: by the caller's contract.
    let time = unsafe { Time::new(machine) };
    let reason = match machine.harts.iter().any(|hart| hart.id == own) {
        false => "cannot run an OS, by the device tree",
        true if machine.cold_boot_harts.contain(own) => {
            "is not of the domain that wakes last, or has no domain"
        }
        true => "is not one of `cold-boot-harts`",
    };
    say!("hart {own} {reason}; another one boots");
    for _ in 0..ROUNDS {
        for id in stage.boot_order(usable) {
            let mut harts = machine.harts.iter();
            let Some(hart) = harts.find(|hart| hart.id == id) else {
                continue;
            };
            // SAFETY: by the caller's contract.
            let doorbell = unsafe { Ipi::new(hart) };
            offer::make(id, tree, information);
            doorbell.send();
            if waited_for(&time, offer::is_taken) || !offer::withdraw(id) {
                offer::leave(own)
            }
        }
    }
}

/// The hart for the domain's next stage. A domain without a boot hart starts on the one that `stage`
/// prefers, or on `own` if that one does not arrive.
///
/// # Errors
///
/// [`BootError::NotArrived`]: the domain's own hart.
pub(super) fn of<'a>(
    domain: &LiveDomain,
    own: &'a Hart,
    stage: &FwDynamic,
) -> Result<&'a Hart, BootError> {
    let wanted = domain.boot_hart.or(stage.boot_hart);
    let found = wanted.and_then(hart::find).filter(|hart| {
        hart.id() == own.id() || waited_for(&platform().time, || hart.has_arrived())
    });
    match (found, domain.boot_hart) {
        (Some(hart), _) => Ok(hart),
        (None, None) => Ok(own),
        (None, Some(id)) => Err(BootError::NotArrived(id)),
    }
}

fn waited_for(time: &Time, is_true: impl Fn() -> bool) -> bool {
    let began = time.ticks();
    let patience = time.ticks_in(PATIENCE_NS);
    while !is_true() {
        if time.ticks().wrapping_sub(began) > patience {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}
