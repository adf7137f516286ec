//! The states of domains: which of them may use whose memory, and the end of one.

use core::fmt::Display;

use poorwill_domain::DomainState;
use poorwill_hart::HsmState;

use crate::hart::{self, Hart, ThisHart};
use crate::platform::console::say;
use crate::platform::domain::LiveDomain;

/// Proof that no hart runs the domain's OS or is about to. It allows the use of the domain's
/// memory.
///
/// It is valid while the calling hart is in machine mode: only a hart of the domain starts another.
#[derive(Debug)]
pub(crate) struct DomainStopped<'d>(&'d LiveDomain);

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
    /// Another hart of the domain, which is not stopped.
    pub(crate) fn park(domain: &'d LiveDomain) -> Result<Self, &'static Hart> {
        others_stopped(domain)?;
        let parked = domain.state.park();
        parked.expect("a domain runs if one of its harts calls");
        Ok(DomainStopped(domain))
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
