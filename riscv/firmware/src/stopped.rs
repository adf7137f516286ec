//! A stopped hart: it works for other harts, and waits for its start.

use poorwill_arch::{csr, environment, wait_for_interrupt};
use poorwill_hart::interrupt;
use poorwill_hart::{Starting, Task, Worker};

use crate::cut;
use crate::entry::stack;
use crate::executor;
use crate::hart::{this_hart, waking, workers};
use crate::platform::power_fail;

/// Entry point from entry.S for a hart that is stopped or stopping. Its call chain has ended; its
/// stack is empty.
#[unsafe(no_mangle)]
extern "C" fn wait_for_start() -> ! {
    stack::leave_deep();
    let own = this_hart();
    stack::verify(own.stack_top());
    // SAFETY: machine mode waits only for its own interrupt; the OS's pending and enabled
    // interrupts end with the stop.
    unsafe {
        csr::write::<{ csr::MIE }>(own.interrupt());
        csr::clear::<{ csr::MIP }>(interrupt::SSI | interrupt::STI);
    }
    // Other harts may have sent fence requests before this one stopped.
    own.handle_ipi();
    if let Err(error) = own.hsm().stopped() {
        // At power-on the hart is stopped already, and may even have been started since.
        debug_assert!(!error.0.has_os(), "{error}");
    }
    own.domain().print_all();
    let mut worker = Worker::new();
    let starting = loop {
        own.handle_ipi();
        executor::take_started(own);
        let starting = own.hsm().starting_unless(executor::is_lent);
        // A hart that resumes a cut does that first, since only the record of the consumed cut has
        // its OS state.
        let goes_on = |starting: &Starting<'_>| starting.task() == Task::Go;
        if power_fail::noticed() && !starting.as_ref().is_some_and(goes_on) {
            cut::stop(None);
        }
        if let Some(starting) = starting {
            break starting;
        }
        // The hart waits only after a round without work, so it does not miss a start that came
        // during the work.
        if !workers::work(&mut worker) {
            wait_for_interrupt();
        }
    };
    own.set_up_csrs();
    executor::arm(own);
    let entry = match starting.task() {
        Task::Start(entry) => {
            cut::wait_for_release(own);
            environment::clear_units();
            entry
        }
        Task::Wake(entry) => {
            waking::restore_hart();
            cut::woke();
            // The hart's OS state is restored, so the line may be armed now.
            cut::begin(own);
            entry
        }
        Task::Go => {
            started(starting);
            cut::go_on()
        }
    };
    started(starting);
    // SAFETY: the hart that gave the task has checked the address.
    unsafe { cut::enter_os(own, entry) }
}

fn started(starting: Starting<'_>) {
    starting
        .started()
        .expect("a requested start is carried out once");
}
