//! The states of domains: which of them may use whose memory, and the end of one.

use core::fmt::Display;

use poorwill_hart::HsmState;
use poorwill_sleep::{DomainState, Remaining, WrongDomainState};
use thiserror::Error;

use crate::domain::{self, LiveDomain, dma};
use crate::hart::{self, Hart, ThisHart};
use crate::platform::console::say;
use crate::platform::power;

/// Proof that no hart runs the domain's OS or is about to. It allows the use of the domain's
/// memory.
///
/// It is valid while the calling hart is in machine mode: only a hart of the domain starts another,
/// and none does in a domain that does not run.
#[derive(Debug)]
pub(crate) struct DomainStopped<'d>(&'d LiveDomain);

/// Why a domain is not parked.
#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum NotParked {
    /// This hart is not stopped.
    #[error("hart {} is not stopped", .0.id())]
    Runs(&'static Hart),
    /// Another hart of the domain has asked for its sleep, too.
    #[error("another hart asks for it, too")]
    Parks,
    /// Another hart has ended the domain.
    #[error("the domain has ended")]
    Ended,
}

/// Proof that no hart runs an OS, since no domain has started. It allows the use of all domains'
/// memory.
#[derive(Debug)]
pub(crate) struct NoneStarted(());

impl NoneStarted {
    /// Looks at each domain.
    ///
    /// # Errors
    ///
    /// A hart that is not stopped.
    pub(crate) fn find() -> Result<Self, &'static Hart> {
        for domain in domain::all() {
            DomainStopped::before_start(domain)?;
        }
        Ok(NoneStarted(()))
    }

    /// The same of one domain. The caller gives its memory up before the domain starts or wakes.
    pub(crate) fn of<'d>(&self, domain: &'d LiveDomain) -> DomainStopped<'d> {
        DomainStopped(domain)
    }
}

impl<'d> DomainStopped<'d> {
    /// For a domain that has not started.
    ///
    /// # Errors
    ///
    /// A hart that is not stopped.
    pub(crate) fn before_start(domain: &'d LiveDomain) -> Result<Self, &'static Hart> {
        assert_eq!(domain.state.state(), DomainState::Waking, "it has started");
        others_stopped(domain)?;
        Ok(DomainStopped(domain))
    }

    /// Parks the calling hart's domain, after its other harts have stopped. While one runs,
    /// `waits` is called again and again; it returns whether to wait on. No hart of the domain
    /// starts meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotParked`]; the domain runs on, if it has not ended.
    pub(crate) fn park(
        domain: &'d LiveDomain,
        mut waits: impl FnMut() -> bool,
    ) -> Result<Self, NotParked> {
        loop {
            match domain.state.begin_park() {
                Ok(()) => break,
                Err(WrongDomainState(DomainState::Ended)) => return Err(NotParked::Ended),
                Err(WrongDomainState(DomainState::Parking)) if waits() => {}
                Err(WrongDomainState(DomainState::Parking)) => return Err(NotParked::Parks),
                Err(error) => panic!("a hart of a domain calls, and {error}"),
            }
        }
        let running = loop {
            match others_stopped(domain) {
                Ok(()) => break None,
                Err(running) if !waits() => break Some(running),
                Err(_) => {}
            }
        };
        let left = match running {
            None => domain.state.park(),
            Some(_) => domain.state.stay_running(),
        };
        // Only another hart of the domain, by its end, leaves that state.
        left.map_err(|_| NotParked::Ended)?;
        match running {
            None => Ok(DomainStopped(domain)),
            Some(hart) => Err(NotParked::Runs(hart)),
        }
    }

    /// For a domain of which the calling hart alone runs, in machine mode.
    ///
    /// # Errors
    ///
    /// A hart that is not stopped.
    pub(crate) fn alone(domain: &'d LiveDomain) -> Result<Self, &'static Hart> {
        others_stopped(domain)?;
        Ok(DomainStopped(domain))
    }

    /// For a domain that sleeps with the machine: only the machine's wake ends that, by this hart.
    /// `None`: it does not sleep, or has ended.
    pub(crate) fn asleep(domain: &'d LiveDomain) -> Option<Self> {
        (domain.state.state() == DomainState::Asleep).then_some(DomainStopped(domain))
    }

    /// Ends the stop of a machine's only domain.
    pub(crate) fn unpark(self) {
        let unparked = self.0.state.unpark();
        unparked.expect("a lone domain stays parked");
    }

    pub(crate) fn domain(&self) -> &'d LiveDomain {
        self.0
    }
}

/// Checks that the domain's harts are stopped, but for the calling one.
fn others_stopped(domain: &LiveDomain) -> Result<(), &'static Hart> {
    let mut running = harts(domain).filter(|hart| hart.state() != HsmState::Stopped);
    running.next().map_or(Ok(()), Err)
}

/// The harts of the domain, but for the calling one.
pub(crate) fn harts(domain: &LiveDomain) -> impl Iterator<Item = &'static Hart> {
    hart::others().filter(move |hart| core::ptr::eq(hart.domain(), domain))
}

/// Ends the calling hart's domain: its OS cannot continue, or asks for a reset that it has no right
/// to. Each of its harts leaves the OS at its next trap. The other domains go on; without any, the
/// machine is reset.
pub(crate) fn end(own: ThisHart, reason: impl Display) -> ! {
    close(own.domain(), reason);
    leave(own)
}

/// Ends the domain, unless another hart has.
fn close(domain: &LiveDomain, reason: impl Display) {
    let Ok(remaining) = domain::set().end(domain) else {
        return;
    };
    match domain.name.is_empty() {
        true => say!("{reason}"),
        false => say!("domain {} ends: {reason}", domain.name),
    }
    match remaining {
        Remaining::Others => {
            harts(domain).for_each(Hart::ring);
            dma::close(domain);
        }
        Remaining::None => power::fatal(),
    }
}

/// Ends a domain that cannot wake or start, by the hart that wakes the machine. No hart runs its OS.
pub(crate) fn give_up(domain: &LiveDomain) {
    // It runs by its state if only its hart could not be started.
    let ended = domain.state.give_up().or_else(|_| domain.state.end());
    ended.expect("a domain starts once, and after each sleep");
    dma::close(domain);
}

/// Ends the calling hart's domain if this hart, which stops, is its last one: no hart could start
/// another, and the domain would keep the machine awake.
pub(crate) fn end_if_last(own: ThisHart) {
    let domain = own.domain();
    let others_stop = || harts(domain).all(|hart| !hart.state().may_call());
    // Another hart that stops may look at the same time.
    while let Err(WrongDomainState(state)) = domain.state.begin_park() {
        if state != DomainState::Parking || !others_stop() {
            return;
        }
        core::hint::spin_loop();
    }
    if !others_stop() {
        // A hart that has ended the domain leaves its OS.
        return domain.state.stay_running().unwrap_or_default();
    }
    close(domain, "all harts of the OS have stopped");
}

/// Keeps the calling hart in machine mode if its domain has ended.
pub(crate) fn leave_if_ended(own: ThisHart) {
    if own.domain().state.state() == DomainState::Ended {
        leave(own)
    }
}

/// Stops the calling hart. It goes on to serve fences, for which harts of its domain may wait.
fn leave(own: ThisHart) -> ! {
    // A hart that starts, in an ended domain, has no OS that could be stopped.
    _ = own.hsm().stop();
    own.wait()
}
