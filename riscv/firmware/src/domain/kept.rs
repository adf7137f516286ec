//! The state of a domain that a sleep or a cut keeps, beside its harts and PCI functions.

use poorwill_state::kept;

use super::report::Os;
use crate::platform::bus::KeptClock;
use crate::platform::interrupts::KeptControllers;
use crate::platform::uarts::Uarts;

kept! {
    /// The state of a domain.
    struct OfDomain of domain, DomainState;
    // The clock comes first: reading the time changes its state.
    Image | Record => clock: KeptClock = KeptClock { domain };
    Image | Record => os: Os = Os::of(domain);
    Image | Record => controllers: KeptControllers = KeptControllers { domain };
    Image | Record => uarts: Uarts = Uarts { domain };
}
