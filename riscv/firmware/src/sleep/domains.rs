//! The sleep of a domain, alone or with the machine. A lone OS is a set of one domain, and its own
//! master.

use core::sync::atomic::{AtomicU32, Ordering};

use poorwill_hart::HsmState;
use poorwill_memory::EntryPoint;
use poorwill_sleep::park::{Parked, park};
use poorwill_sleep::{DomainCell, DomainState, Event, NoSleep, RamWake, Startup};
use thiserror::Error;

use super::retain::Resting;
use super::{run, woken};
use crate::domain::{self, LiveDomain, report};
use crate::entry::stack;
use crate::hart::domain_state::{self, DomainStopped};
use crate::hart::{Hart, ThisHart, resting};
use crate::platform::console::say;
use crate::platform::{platform, power_fail};

/// What a domain's OS asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Its own sleep.
    Domain,
    /// The machine's.
    Machine,
}

/// Why the machine does not sleep.
#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum Refused {
    /// Another domain keeps it awake.
    #[error("domain {} is not parked", .0.name)]
    KeptAwake(&'static LiveDomain),
    /// It could not be saved.
    #[error(transparent)]
    NoSleep(#[from] NoSleep),
}

impl Refused {
    /// Reports the refusal to the console and to the master's OS.
    pub(crate) fn say_to(&self, master: &LiveDomain) {
        match self {
            Refused::KeptAwake(awake) => {
                // The master may ask in each of its periods: a domain is named once.
                let named = NAMED.load(Ordering::Relaxed);
                let is_named = named & 1 << awake.index != 0;
                if !is_named && master.say_at_once(format_args!("sleep refused: {self}")) {
                    NAMED.fetch_or(1 << awake.index, Ordering::Relaxed);
                }
            }
            Refused::NoSleep(_) => {
                say!("sleep refused: {self}");
                // If the power fails, memory may be sealed, and time is short.
                if !power_fail::noticed() {
                    report::tell_log(master);
                }
            }
        }
    }
}

/// A bit for each domain that a refused sleep has named since the last sleep.
static NAMED: AtomicU32 = AtomicU32::new(0);

/// Looks for a domain that would keep the machine awake, without a wait.
///
/// # Errors
///
/// [`Refused::KeptAwake`].
pub(crate) fn may_sleep(domain: &LiveDomain, depth: Depth) -> Result<(), Refused> {
    match depth {
        Depth::Domain => Ok(()),
        Depth::Machine => domain::set()
            .keeps_awake(domain)
            .map_or(Ok(()), |awake| Err(Refused::KeptAwake(awake))),
    }
}

/// Lets the calling hart's domain sleep. The OS continues at `vector` after this, unless the machine
/// was switched off.
///
/// # Errors
///
/// [`Refused`]: the machine does not sleep.
pub(crate) fn sleep(
    hart: ThisHart,
    vector: EntryPoint,
    stopped: DomainStopped<'static>,
    depth: Depth,
) -> Result<(), Refused> {
    let domain = stopped.domain();
    resting::sleeps(domain, vector);
    match depth {
        Depth::Machine => {
            let slept = sleep_with_all(vector);
            // Without its own end the sleep is one with the machine, by another master.
            if let Err(refused) = slept
                && domain.state.unpark().is_ok()
            {
                return Err(refused);
            }
        }
        Depth::Domain => {
            domain.say(format_args!("{}", Event::Parks(&domain.name)));
            domain.print_all();
        }
    }
    rest(hart, domain);
    Ok(())
}

/// Puts the machine to sleep, and wakes the first domain.
fn sleep_with_all(vector: EntryPoint) -> Result<(), Refused> {
    let domains = domain::set();
    if let Err(awake) = domains.fall_asleep() {
        ring_parked();
        return Err(Refused::KeptAwake(awake));
    }
    NAMED.store(0, Ordering::Relaxed);
    domain::all().for_each(ring);
    let slept = stack::deep(|| run::sleep_machine(vector));
    if let Err(refused) = slept {
        domains.stay_parked();
        ring_parked();
        return Err(refused.into());
    }
    wake_next(0);
    Ok(())
}

/// Rests until the sleep of the calling hart's domain ends, by a wake event of its own or with the
/// machine's.
fn rest(hart: ThisHart, domain: &'static LiveDomain) {
    let time = &platform().time;
    let began = time.ticks();
    let Some(source) = Resting::run(hart, |resting| park(resting)) else {
        return continue_after_wake(domain);
    };
    let ended = time.ticks();
    let slept_ms = time.milliseconds_in(ended.saturating_sub(began));
    report::tell(domain, &Startup::Ram { source, slept_ms });
    let event = Event::Unparked {
        domain: &domain.name,
        by: source,
        slept_ms,
        us: time.microseconds_in(time.ticks().saturating_sub(ended)),
    };
    domain.say(format_args!("{event}"));
    report::tell_log(domain);
}

/// Reports to the domain's OS that the machine has woken, and wakes the next domain. The OS
/// continues when this returns. The last domain reports the wakes on the console, since the others
/// may be in a hurry.
fn continue_after_wake(domain: &'static LiveDomain) {
    let event = woken::add(domain);
    // A save that a power failure has ended reports nothing: the machine will be cut.
    if let Some(RamWake {
        source, slept_ms, ..
    }) = event
    {
        report::tell(domain, &Startup::Ram { source, slept_ms });
    }
    domain.run();
    if wake_next(domain.index + 1).is_none() {
        woken::tell();
        report::tell_log(domain);
    }
}

/// Wakes the next domain that sleeps with the machine, from this index on.
fn wake_next(from: usize) -> Option<&'static LiveDomain> {
    let next = domain::set().wake_next(from);
    next.inspect(|domain| ring(domain))
}

/// Interrupts the hart that rests for each parked domain, since the machine does not sleep.
fn ring_parked() {
    let is_parked = |domain: &&LiveDomain| domain.state.state() == DomainState::Parked;
    domain::all().filter(is_parked).for_each(ring);
}

/// Interrupts the domain's hart that rests, so that it looks at the domain's state.
fn ring(domain: &LiveDomain) {
    domain_state::harts(domain)
        .filter(|hart| hart.state() == HsmState::Started)
        .for_each(Hart::ring);
}

impl Parked for Resting {
    fn cell(&self) -> &DomainCell {
        &self.domain().state
    }

    fn rest_deep(&mut self) {
        self.serve();
    }
}
