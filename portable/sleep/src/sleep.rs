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

/// What a sleep came to, while the power is on.
#[derive(Debug)]
pub enum Slept {
    /// The image is committed: the power is to be switched off.
    Asleep(Committed),
    /// The cut is committed: the power is to be switched off.
    Cut(CutCommitted),
    /// Nobody can tell whether it is. Were the OS to go on, an image that did get
    /// committed would be woken over what it has done since: the power is to be
    /// switched off.
    InDoubt(StoreError),
    /// The machine has slept with its RAM powered: the OS goes on at its wake vector.
    Awake,
    /// The machine was to be saved at once, and could not: the OS's call fails.
    Refused(NoSleep),
    /// The power fails: the machine is to be cut, where its OS goes on.
    PowerFails {
        /// The machine has slept with its RAM powered: the OS goes on at its wake vector.
        /// Else its call fails.
        has_slept: bool,
        /// What of memory is still sealed. It is opened before the OS goes on.
        sealed: Option<SealedMemory>,
    },
}

/// Puts the machine to sleep in the mode that its sleep area is configured for: one that is
/// to be cut, and is not, is saved, and where it cannot be, it rests with its RAM powered. Memory and disk are as the OS left
/// them, unless the image is committed or may be.
pub fn sleep<M: Machine>(machine: &M, mut quiesced: Quiesced<'_>, work: &mut Work<'_>) -> Slept {
    let mut order = Order::AsConfigured;
    let began = machine.ticks();
    match cut_if_chosen(machine, quiesced.vector(), began, work) {
        None => {}
        Some(Ok(committed)) => return Slept::Cut(committed),
        Some(Err(refused)) => {
            machine.say(&Event::NotCut(refused));
            if refused == NoCut::PowerFails {
                // The OS goes on, for the instant at which it is cut.
                rest(machine, None);
                return Slept::Awake;
            }
        }
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

/// Cuts the machine, if it can be, and nobody has chosen another mode by name; `None` where
/// that is not so.
// Its frame is gone before a save needs the stack.
#[inline(never)]
fn cut_if_chosen<M: Machine>(
    machine: &M,
    vector: WakeVector,
    began: u64,
    work: &mut Work<'_>,
) -> Option<Result<CutCommitted, NoCut>> {
    let is_chosen =
        machine.can_be_cut() && choose(&configuration(machine, work), true) == Choice::Cut;
    is_chosen.then(|| {
        machine.say(&Event::Cut);
        machine.cut(vector, began)
    })
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
    machine.domain().tell_os(source, slept_ms);
    machine.say(&Event::WokenFromRam {
        source,
        slept_ms,
        ms: machine.milliseconds_since(ended),
    });
}
