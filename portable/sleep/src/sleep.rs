use poorwill_image::SealedMemory;
use poorwill_store::{Committed, StoreError};

use crate::area::configuration;
use crate::chain::Quiesced;
use crate::choice::{Choice, choose};
use crate::cut::{CutCommitted, NoCut};
use crate::error::NoSleep;
use crate::event::Event;
use crate::machine::{Domain, Machine, WakeVector};
use crate::persist::{NotSaved, Order, persist};
use crate::retain::{self, End, Source};
use crate::work::Work;

/// The result of a sleep, while the power is on.
#[derive(Debug)]
pub enum Slept {
    /// The image is committed: the power is to be switched off.
    Asleep(Committed),
    /// The cut is committed: the power is to be switched off.
    Cut(CutCommitted),
    /// The image may be committed or not. If the OS went on, an image that is committed would
    /// be woken over its later work: the power is to be switched off.
    InDoubt(StoreError),
    /// The machine has slept with its RAM powered: the OS goes on at its wake vector.
    Awake,
    /// The machine could not be saved at once: the OS's call fails.
    Refused(NoSleep),
    /// The power fails: the machine is to be cut, where its OS goes on.
    PowerFails {
        /// The machine has slept with its RAM powered: the OS goes on at its wake vector.
        /// Otherwise its call fails.
        has_slept: bool,
        /// Memory that is still sealed. It is opened before the OS goes on.
        sealed: Option<SealedMemory>,
    },
}

/// Puts the machine to sleep in the mode that its sleep area is configured for. A machine that
/// refuses a cut is saved. A machine that cannot be saved rests with its RAM powered. Memory
/// and disk are as the OS left them, unless the image is committed or may be.
pub fn sleep<M: Machine>(machine: &M, mut quiesced: Quiesced<'_>, work: &mut Work<'_>) -> Slept {
    let mut order = Order::AsConfigured;
    let began = machine.ticks();
    if let Some(slept) = cut_if_chosen(machine, quiesced.vector(), began, work) {
        return slept;
    }
    loop {
        let stage_after_ms = match persist(machine, &mut quiesced, order, work) {
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

/// Cuts the machine, if it can be, and no other mode is chosen by name. `None`: it is not cut,
/// and sleeps in another way.
// Its frame is gone before a save needs the stack.
#[inline(never)]
fn cut_if_chosen<M: Machine>(
    machine: &M,
    vector: WakeVector,
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
    let refused = match machine.cut(vector, began) {
        Ok(committed) => return Some(Slept::Cut(committed)),
        Err(refused) => refused,
    };
    machine.say(&Event::NotCut(refused));
    match (refused, configured, machine.obstacle()) {
        (NoCut::PowerFails, ..) => {
            // The OS goes on, until it is cut.
            rest(machine, None);
            Some(Slept::Awake)
        }
        // A save would be refused, too: the disk is not started again for that.
        (_, Some(_), Some(obstacle)) => Some(Slept::Refused(obstacle.into())),
        _ => None,
    }
}

/// Sleeps with the RAM powered, and says so.
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

/// Says, also to the OS, that the machine wakes, which has rested since `began`.
fn woken<M: Machine>(machine: &M, source: Source, began: u64) {
    let ended = machine.ticks();
    let slept_ms = machine.milliseconds_in(ended.saturating_sub(began));
    machine.domain().tell_os(source, slept_ms);
    machine.say(&Event::WokenFromRam {
        by: source,
        slept_ms,
        ms: machine.milliseconds_since(ended),
    });
}
