use poorwill_store::{Committed, StoreError};

use crate::chain::Quiesced;
use crate::error::NoSleep;
use crate::event::Event;
use crate::machine::Machine;
use crate::persist::{NotSaved, Order, persist};
use crate::retain::{self, End, Source};
use crate::work::Work;

/// What a sleep came to, while the power is on.
#[derive(Debug)]
pub enum Slept {
    /// The image is committed: the power is to be switched off.
    Asleep(Committed),
    /// Nobody can tell whether it is. Were the OS to go on, an image that did get
    /// committed would be woken over what it has done since: the power is to be
    /// switched off.
    InDoubt(StoreError),
    /// The machine has slept with its RAM powered: the OS goes on at its wake vector.
    Awake,
    /// The machine was to be saved at once, and could not: the OS's call fails.
    Refused(NoSleep),
}

/// Puts the machine to sleep in the mode that its sleep area is configured for, or
/// where it cannot be saved, with its RAM powered. Memory and disk are as the OS left
/// them, unless the image is committed or may be.
pub fn sleep<M: Machine>(machine: &M, mut quiesced: Quiesced<'_>, work: &mut Work<'_>) -> Slept {
    let mut order = Order::AsConfigured;
    let began = machine.ticks();
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

/// The machine, which has rested since `began`, wakes: says so, also to the OS.
fn woken<M: Machine>(machine: &M, source: Source, began: u64) {
    let ended = machine.ticks();
    let slept_ms = machine.milliseconds_in(ended.saturating_sub(began));
    machine.tell_os(source, slept_ms);
    machine.say(&Event::WokenFromRam {
        source,
        slept_ms,
        ms: machine.milliseconds_since(ended),
    });
}
