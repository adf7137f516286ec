//! The states of domains: which of them may use whose memory, and the end of one.

use core::fmt::Display;

use poorwill_domain::{DomainState, WrongDomainState};
use poorwill_hart::HsmState;
use thiserror::Error;

use crate::hart::{self, Hart, ThisHart};
use crate::platform::console::say;
use crate::platform::dma;
use crate::platform::domain::LiveDomain;

/// Proof that no hart runs the domain's OS or is about to. It allows the use of the domain's
/// memory.
///
/// It is valid while the calling hart is in machine mode: only a hart of the domain starts another.
#[derive(Debug)]
pub(crate) struct DomainStopped<'d>(&'d LiveDomain);

/// Why a domain is not parked.
#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum NotParked {
    /// This hart is not stopped.
    #[error("hart {} is not stopped", .0.id())]
    Runs(&'static Hart),
    /// Another hart has ended the domain.
    #[error("the domain has ended")]
    Ended,
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

    /// Parks the calling hart's domain.
    ///
    /// # Errors
    ///
    /// [`NotParked`].
    pub(crate) fn park(domain: &'d LiveDomain) -> Result<Self, NotParked> {
        others_stopped(domain).map_err(NotParked::Runs)?;
        match domain.state.park() {
            Ok(()) => Ok(DomainStopped(domain)),
            Err(WrongDomainState(DomainState::Ended)) => Err(NotParked::Ended),
            Err(error) => panic!("a hart of a domain calls, and {error}"),
        }
    }

    /// Ends the sleep that the calling hart's domain alone has begun.
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
/// to. Each of its harts leaves the OS at its next trap. The other domains go on.
pub(crate) fn end(own: ThisHart, reason: impl Display) -> ! {
    let domain = own.domain();
    // Another hart may have ended it already.
    if domain.state.end().is_ok() {
        say!("domain {} ends: {reason}", domain.name);
        harts(domain).for_each(Hart::ring);
        dma::close(domain);
    }
    leave(own)
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
