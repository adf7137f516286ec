//! Sleeps of a machine with domains. Each domain parks; when all others are parked or ended, the
//! master puts the machine to sleep. After the wake event the domains wake in their order: each
//! wakes the next one just before it continues.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use poorwill_devicetree::MAX_DOMAINS;
use poorwill_domain::DomainState;
use poorwill_hart::HsmState;
use poorwill_sleep::park::{Depth, Parked};
use poorwill_sleep::retain::{End, Source};
use poorwill_sleep::{Event, Startup, park as sleep_of_domain, retain};
use spin::Mutex;

use super::retain::Resting;
use crate::domain::{self, LiveDomain, report};
use crate::hart::domain_state::{self, DomainStopped};
use crate::hart::{Hart, ThisHart};
use crate::platform::console::{self, say};
use crate::platform::platform;

/// The machine's last wake.
#[derive(Debug)]
struct Wake {
    source: Source,
    slept_ms: u64,
    /// Time of the wake event, in ticks.
    began: u64,
    /// Each domain that has woken, and the time when it did.
    woken: ArrayVec<(&'static LiveDomain, u64), MAX_DOMAINS>,
}

static WAKE: Mutex<Option<Wake>> = Mutex::new(None);

/// A domain that keeps the machine awake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused(&'static LiveDomain);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain {} is not parked", self.0.name)
    }
}

impl Refused {
    /// Reports the refusal on the console, unless it was the last answer, too: the master may ask
    /// in each of its periods.
    pub(crate) fn say_to(self, master: &LiveDomain) {
        if REFUSED_FOR.swap(self.0.index, Ordering::Relaxed) != self.0.index {
            master.say(format_args!("sleep refused: {self}"));
        }
    }
}

/// Index of the domain for which the machine's sleep was refused last; [`NO_DOMAIN`] after a sleep.
static REFUSED_FOR: AtomicUsize = AtomicUsize::new(NO_DOMAIN);

const NO_DOMAIN: usize = usize::MAX;

/// Looks for a domain that would keep the machine awake, without a wait.
///
/// # Errors
///
/// [`Refused`].
pub(crate) fn may_sleep(master: &LiveDomain) -> Result<(), Refused> {
    let is_ready = |domain: &&LiveDomain| match domain.state.state() {
        DomainState::Parked | DomainState::Ended => true,
        DomainState::Running | DomainState::Parking | DomainState::Asleep | DomainState::Waking => {
            core::ptr::eq(*domain, master)
        }
    };
    match domain::all().find(|domain| !is_ready(domain)) {
        Some(domain) => Err(Refused(domain)),
        None => Ok(()),
    }
}

/// Sleeps alone, until a wake event of the domain's own, or with the machine if the master puts
/// that to sleep.
pub(crate) fn park(hart: ThisHart, stopped: &DomainStopped<'static>) {
    let domain = stopped.domain();
    let time = &platform().time;
    domain.say(format_args!("{}", Event::Parks(&domain.name)));
    domain.print_all();
    let began = time.ticks();
    let Some(source) = rest(hart) else {
        return woken(domain);
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

/// Puts the machine to sleep, as its master asks. Returns after the wake.
///
/// # Errors
///
/// [`Refused`]: another domain has just woken.
pub(crate) fn sleep_all(hart: ThisHart, stopped: DomainStopped<'static>) -> Result<(), Refused> {
    let domains = domain::all();
    if let Err((index, _)) = poorwill_domain::sleep_all(domains.map(|domain| &domain.state)) {
        // Their harts may have missed a wake event meanwhile.
        domain::all().take(index).for_each(ring);
        stopped.unpark();
        return Err(Refused(
            domain::all().nth(index).expect("the index is a domain's"),
        ));
    }
    REFUSED_FOR.store(NO_DOMAIN, Ordering::Relaxed);
    domain::all().for_each(ring);
    say!("{}", Event::Rests(None));
    let time = &platform().time;
    let slept = time.ticks();
    let source = wait_for_event(hart);
    let began = time.ticks();
    *WAKE.lock() = Some(Wake {
        source,
        slept_ms: time.milliseconds_in(began.saturating_sub(slept)),
        began,
        woken: ArrayVec::new(),
    });
    wake_from(0);
    let own = stopped.domain();
    // The master, too, wakes in its turn.
    let event = rest(hart);
    debug_assert!(event.is_none(), "the master sleeps with the machine");
    woken(own);
    Ok(())
}

/// Rests until a wake event of the calling hart's domain.
fn wait_for_event(hart: ThisHart) -> Source {
    match Resting::run(hart, |machine| retain::retain(machine, None)) {
        End::Woken(source) => source,
        End::Staged(cause) => unreachable!("no time was set for a save: {cause}"),
    }
}

/// Rests until the sleep of the calling hart's domain ends. `None`: the machine wakes.
fn rest(hart: ThisHart) -> Option<Source> {
    Resting::run(hart, |domain| sleep_of_domain::park(domain))
}

/// Reports to the domain's OS that the machine has woken, and wakes the next domain. The OS
/// continues when this returns. The last domain reports the wakes on the console, since the others
/// may be in a hurry.
fn woken(domain: &'static LiveDomain) {
    let time = &platform().time;
    let startup = {
        let mut wake = WAKE.lock();
        let wake = wake.as_mut().expect("the master has recorded the wake");
        wake.woken.push((domain, time.ticks()));
        Startup::Ram {
            source: wake.source,
            slept_ms: wake.slept_ms,
        }
    };
    report::tell(domain, &startup);
    domain.run();
    if !wake_from(domain.index + 1) {
        tell_wakes();
        report::tell_log(domain);
    }
}

/// Wakes the first domain that sleeps with the machine, from this index on. Returns whether there
/// is one.
fn wake_from(index: usize) -> bool {
    let mut domains = domain::all().skip(index);
    match domains.find(|domain| domain.state.wake().is_ok()) {
        Some(domain) => {
            ring(domain);
            true
        }
        None => false,
    }
}

fn tell_wakes() {
    let Some(wake) = WAKE.lock().take() else {
        return;
    };
    for (domain, at) in &wake.woken {
        let event = Event::WokenWithMachine {
            domain: &domain.name,
            by: wake.source,
            slept_ms: wake.slept_ms,
            us: platform()
                .time
                .microseconds_in(at.saturating_sub(wake.began)),
        };
        console::line_about(&domain.name, format_args!("{event}"));
    }
}

/// Interrupts the domain's hart that rests, so that it looks at the domain's state.
fn ring(domain: &LiveDomain) {
    domain_state::harts(domain)
        .filter(|hart| hart.state() == HsmState::Started)
        .for_each(Hart::ring);
}

impl Parked for Resting {
    fn depth(&self) -> Depth {
        match self.domain().state.state() {
            DomainState::Parked => Depth::Alone,
            DomainState::Asleep => Depth::WithMachine,
            DomainState::Waking => Depth::Woken,
            state @ (DomainState::Running | DomainState::Parking | DomainState::Ended) => {
                unreachable!("a resting domain is {state:?}")
            }
        }
    }

    fn unpark(&mut self) -> bool {
        self.domain().state.unpark().is_ok()
    }

    fn rest_deep(&mut self) {
        self.wait_for_ipi();
    }
}
