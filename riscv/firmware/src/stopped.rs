//! A stopped hart: it works for others, and waits to be started.

use poorwill_arch::{csr, wait_for_interrupt};
use poorwill_hart::interrupt;
use poorwill_hart::{Starting, Task, Worker};

use crate::cut;
use crate::entry::stack;
use crate::hart::this_hart;
use crate::platform::power_fail;
use crate::sleeper;
use crate::workers;

/// Where entry.S brings a hart whose call chain has ended, on its empty stack. It is
/// stopped, or on its way there.
#[unsafe(no_mangle)]
extern "C" fn wait_for_start() -> ! {
    stack::leave_deep();
    let own = this_hart();
    stack::verify(own.stack_top());
    // SAFETY: machine mode waits for its own interrupt and nothing else; what
    // the OS had pending or enabled ends with the stop.
    unsafe {
        csr::write::<{ csr::MIE }>(own.interrupt());
        csr::clear::<{ csr::MIP }>(interrupt::SSI | interrupt::STI);
    }
    // Whoever stops has fences that it was asked for as a running hart.
    own.handle_ipi();
    if let Err(error) = own.hsm().stopped() {
        // At power-on it is stopped already, and may have been started since.
        debug_assert!(!error.0.has_os(), "{error}");
    }
    let mut worker = Worker::new();
    let starting = loop {
        own.handle_ipi();
        let starting = own.hsm().starting();
        // One that is to go on does so first: what it holds for the OS is in the record of
        // a cut that is consumed.
        let goes_on = |starting: &Starting<'_>| starting.task() == Task::Go;
        if power_fail::is_failing() && !starting.as_ref().is_some_and(goes_on) {
            cut::stop(None);
        }
        if let Some(starting) = starting {
            break starting;
        }
        // A start that came while it worked is found before it waits.
        if !workers::work(&mut worker) {
            wait_for_interrupt();
        }
    };
    own.set_up_csrs();
    let resume = match starting.task() {
        Task::Start(resume) => {
            cut::wait_for_release(own);
            resume
        }
        Task::Wake(resume) => {
            sleeper::restore_hart();
            cut::woke(own);
            // What it holds for the OS is in no other place any more.
            cut::begin(own);
            resume
        }
        Task::Go => {
            started(starting);
            cut::go_on()
        }
    };
    started(starting);
    // SAFETY: whoever gave the task checked the address.
    unsafe { cut::enter_or_stop(own, resume) }
}

fn started(starting: Starting<'_>) {
    starting
        .started()
        .expect("a hart that is told to start starts once");
}
