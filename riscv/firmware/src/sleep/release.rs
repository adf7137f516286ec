//! The end of a domain's wake.

use poorwill_hart::Task;
use poorwill_sleep::{ColdBoot, Core, Outcome};

use crate::domain::{LiveDomain, dma, report};
use crate::hart::{self, domain_state};

/// Starts a domain cold, for a reason, while others run. Without success it ends the domain.
pub(crate) type StartCold<'a> = &'a dyn Fn(&'static LiveDomain, ColdBoot);

/// Lets a domain go on that has slept. Machine mode's disk no longer reaches its memory.
pub(super) fn release(
    domain: &'static LiveDomain,
    outcome: Outcome<Core>,
    start_cold: StartCold<'_>,
) {
    dma::exclude(domain);
    match outcome {
        Outcome::Wakes(core) => {
            report::tell_log(domain);
            let hart = hart::find(core.hart()).expect("the check of the state found the hart");
            domain.run();
            hart.start(Task::Wake(core.vector()))
                .expect("every hart waits for its start");
        }
        Outcome::Cold(reason) => start_cold(domain, reason),
        Outcome::Ended(_) => domain_state::give_up(domain),
    }
}
