use poorwill_image::SealedMemory;
use poorwill_memory::EntryPoint;
use poorwill_store::{Committed, StoreError};

use crate::area::configuration;
use crate::chain::Quiesced;
use crate::choice::{Choice, choose};
use crate::cut::{CutCommitted, NoCut};
use crate::error::NoSleep;
use crate::event::{Event, RamWake};
use crate::machine::Machine;
use crate::persist::{NotSaved, Order, name_left_in_use, persist};
use crate::retain::{self, End, Source};
use crate::work::Work;

/// The result of a sleep, before the power goes off.
#[derive(Debug)]
pub enum Slept {
    /// The image is committed: the power must be switched off.
    Asleep(Committed),
    /// The cut is committed: the power must be switched off.
    Cut(CutCommitted),
    /// It is unknown whether the image is committed, so the power must be switched off. If the OS
    /// continued, a committed image could later wake over its work.
    InDoubt(StoreError),
    /// The machine has slept with powered RAM: the OS continues at its wake vector.
    Awake,
    /// The machine could not be saved at once: the OS's call returns an error.
    Refused(NoSleep),
    /// The power fails: the machine will be cut.
    PowerFails {
        /// The machine has slept with powered RAM: the OS continues at its wake vector. Otherwise
        /// its call returns an error.
        has_slept: bool,
        /// The memory that is still sealed. It is opened before the OS continues.
        sealed: Option<SealedMemory>,
    },
}

/// Puts the machine to sleep in the mode of its sleep area's configuration. If a cut is refused,
/// the machine is saved. If a save is impossible, the machine retains. Memory and disk have the
/// OS's state, unless the image is committed or may be.
///
/// `domains` are those that sleep, in the order of their wakes. `vector` is where the OS that asks
/// for the sleep continues.
///
/// # Panics
///
/// If there is no domain.
pub fn sleep<M: Machine>(
    machine: &M,
    domains: &mut [Quiesced<'_, M::Domain>],
    vector: EntryPoint,
    work: &mut Work<'_>,
) -> Slept {
    let mut order = Order::AsConfigured;
    let began = machine.ticks();
    if machine.only_retains() {
        rest(machine, None);
        return Slept::Awake;
    }
    if let Some(slept) = cut_if_chosen(machine, vector, began, work) {
        return slept;
    }
    loop {
        let stage_after_ms = match persist(machine, domains, order, work) {
            Ok(committed) => return Slept::Asleep(committed),
            Err(NotSaved::InDoubt(error)) => return Slept::InDoubt(error),
            Err(NotSaved::Rests(stage_after_ms)) => stage_after_ms,
            Err(NotSaved::Abandoned(source)) => {
                machine.say(&Event::Abandoned(source));
                woken(machine, source, began);
                return Slept::Awake;
            }
            Err(NotSaved::PowerFails(sealed)) => {
                return Slept::PowerFails {
                    has_slept: order == Order::Staged,
                    sealed,
                };
            }
            Err(NotSaved::NotArmed(lacks)) => {
                machine.say(&Event::NotArmed(lacks));
                None
            }
            Err(NotSaved::Failed(error)) if order == Order::AsConfigured => {
                return Slept::Refused(error);
            }
            Err(NotSaved::Failed(error)) => {
                machine.say(&Event::RestsOn(error));
                None
            }
        };
        match rest(machine, stage_after_ms) {
            End::Woken(_) => return Slept::Awake,
            End::Staged(_) => order = Order::Staged,
        }
    }
}

/// Cuts the machine if possible, unless another mode is configured. `None`: no cut was made, and
/// the machine must sleep in another way.
// Not inlined, so that this frame ends before a save needs the stack.
#[inline(never)]
fn cut_if_chosen<M: Machine>(
    machine: &M,
    vector: EntryPoint,
    began: u64,
    work: &mut Work<'_>,
) -> Option<Slept> {
    if !machine.can_be_cut() {
        return None;
    }
    let configured = configuration(machine, work);
    if choose(&configured.unwrap_or_default(), true) != Choice::Cut {
        return None;
    }
    machine.say(&Event::Cut);
    name_left_in_use(machine, &machine.left_in_use());
    let refused = match machine.cut(vector, began) {
        Ok(committed) => return Some(Slept::Cut(committed)),
        Err(refused) => refused,
    };
    machine.say(&Event::NotCut(refused));
    match (refused, configured, machine.obstacle()) {
        (NoCut::PowerFails, ..) => {
            // The OS continues until the power failure's cut.
            rest(machine, None);
            Some(Slept::Awake)
        }
        // The same obstacle would refuse a save, so the disk is not started again.
        (_, Some(_), Some(obstacle)) => Some(Slept::Refused(obstacle.into())),
        _ => None,
    }
}

/// Retains, and reports it on the console.
fn rest<M: Machine>(machine: &M, stage_after_ms: Option<u64>) -> End {
    machine.say(&Event::Rests(stage_after_ms));
    let began = machine.ticks();
    let stage_at = stage_after_ms.map(|ms| {
        let ticks = machine.ticks_in(ms.saturating_mul(1_000_000));
        began.saturating_add(ticks)
    });
    let end = machine.with_sleeper(|sleeper| retain::retain(sleeper, stage_at));
    match end {
        End::Woken(source) => woken(machine, source, began),
        End::Staged(cause) => {
            let slept_ms = machine.milliseconds_since(began);
            machine.say(&Event::Staged { cause, slept_ms });
        }
    }
    end
}

/// Lets the machine report its wake. It has retained since `began`.
fn woken<M: Machine>(machine: &M, source: Source, began: u64) {
    let at = machine.ticks();
    let slept_ms = machine.milliseconds_in(at.saturating_sub(began));
    machine.woke_from_ram(&RamWake {
        source,
        slept_ms,
        at,
    });
}
