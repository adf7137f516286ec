//! The harts of the machine: each with its description in the device tree, its HSM state, its
//! mailbox, its timer and its stack.

pub(crate) mod domain_state;
pub(crate) mod exception;
pub(crate) mod memory;
pub(crate) mod resting;
pub(crate) mod waking;
pub(crate) mod workers;

use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::ipi::{self, Ipi};
use poorwill_arch::{
    HartTimer, OsContext, counters, csr, hart_timer, set_thread_pointer, thread_pointer,
    wait_for_interrupt,
};
use poorwill_devicetree::{self as devicetree, MAX_HARTS, Machine};
use poorwill_hart::interrupt;
use poorwill_hart::{
    Environment, HsmCell, HsmState, IpiDevice, Kept, LocalHsm, Mailbox, NotStarted, Request, Task,
    WrongState,
};
use poorwill_memory::EntryPoint;
use spin::Once;

use crate::domain::{self, LiveDomain, pmp};
use crate::entry;
use crate::platform::{platform, power_fail};

#[derive(Debug)]
pub(crate) struct Hart {
    pub(crate) description: devicetree::Hart,
    domain: &'static LiveDomain,
    hsm: HsmCell,
    mailbox: Mailbox,
    ipi: Ipi,
    timer: HartTimer,
    stack_top: AtomicUsize,
}

static HARTS: Once<ArrayVec<Hart, MAX_HARTS>> = Once::new();

/// Sets the list of harts, before any but the boot hart uses it.
///
/// # Safety
///
/// `machine` describes this machine, and its domains are set up.
pub(crate) unsafe fn start(machine: &Machine) {
    HARTS.call_once(|| {
        let harts = machine.harts.iter();
        let harts = harts.filter_map(|hart| Some((hart, domain::of(hart.id)?)));
        let harts = harts.map(|(description, domain)| Hart {
            description: *description,
            domain,
            hsm: HsmCell::new(),
            mailbox: Mailbox::new(),
            // SAFETY: passed on to the caller.
            ipi: unsafe { Ipi::new(description) },
            // SAFETY: passed on to the caller.
            timer: unsafe { hart_timer(description) },
            stack_top: AtomicUsize::new(0),
        });
        harts.collect()
    });
}

/// All harts that can run an OS, and have a domain.
pub(crate) fn all() -> &'static [Hart] {
    // The list is empty before the start.
    HARTS.get().map_or(&[], |harts| harts)
}

/// The place of a hart in the list of [all].
pub(crate) fn place_of(hart: &Hart) -> usize {
    let place = all().iter().position(|other| core::ptr::eq(other, hart));
    place.expect("every hart is in the list")
}

pub(crate) fn others() -> impl Iterator<Item = &'static Hart> {
    let own = this_hart();
    all().iter().filter(move |hart| !own.is(hart))
}

pub(crate) fn find(id: u64) -> Option<&'static Hart> {
    all().iter().find(|hart| hart.id() == id)
}

impl Hart {
    pub(crate) fn id(&self) -> u64 {
        self.description.id
    }

    pub(crate) fn domain(&self) -> &'static LiveDomain {
        self.domain
    }

    pub(crate) fn state(&self) -> HsmState {
        self.hsm.remote().state()
    }

    /// The hart's own view, for the weak hart that runs its OS. Until the OS is given back, the hart
    /// itself makes no transition.
    pub(crate) fn lent_hsm(&self) -> LocalHsm<'_> {
        self.hsm.local()
    }

    /// Entry point of the OS, on a hart that was requested to start and has not yet started.
    pub(crate) fn pending_start(&self) -> Option<EntryPoint> {
        self.hsm.remote().pending_start()
    }

    /// Returns whether the hart is the first in the list, which the power-fail line interrupts.
    pub(crate) fn is_first(&self) -> bool {
        all()
            .first()
            .is_some_and(|first| core::ptr::eq(first, self))
    }

    /// Starts the hart, if it is stopped.
    ///
    /// # Errors
    ///
    /// [`WrongState`].
    pub(crate) fn start(&self, task: Task) -> Result<(), WrongState> {
        self.hsm.remote().start(task)?;
        self.send_ipi(Request::Start);
        Ok(())
    }

    /// Starts the hart as [`start`](Self::start) does, at the request of a hart of its domain.
    ///
    /// # Errors
    ///
    /// [`NotStarted`].
    pub(crate) fn start_by_os(&self, task: Task) -> Result<(), NotStarted> {
        let hsm = self.hsm.remote();
        hsm.start_if(task, || self.domain.state.may_start_hart())?;
        self.send_ipi(Request::Start);
        Ok(())
    }

    /// Sends the hart a request, and interrupts it in machine mode.
    pub(crate) fn send_ipi(&self, request: Request) {
        self.mailbox.send(request, &self.ipi);
    }

    /// Interrupts the hart in machine mode, without a request.
    pub(crate) fn ring(&self) {
        self.ipi.send();
    }

    /// Returns whether the hart has served an awaited request.
    pub(crate) fn has_done(&self, request: Request) -> bool {
        !self.mailbox.is_posted(request)
    }

    /// Returns whether the hart has come from entry.S: at the machine's start it may be late or
    /// missing.
    pub(crate) fn has_arrived(&self) -> bool {
        self.stack_top() != 0
    }

    pub(crate) fn stack_top(&self) -> usize {
        self.stack_top.load(Ordering::Relaxed)
    }

    /// Makes the calling hart this one: sets its stack, its thread pointer, and the OS's initial
    /// CSRs.
    pub(crate) fn init(&'static self, stack_top: usize) -> ThisHart {
        self.stack_top.store(stack_top, Ordering::Relaxed);
        set_thread_pointer(core::ptr::from_ref(self).expose_provenance());
        let own = ThisHart(self);
        own.set_up_csrs();
        ipi::start_hart(&self.description);
        if let Some(line) = power_fail::line().filter(|_| self.is_first()) {
            line.start_hart();
        }
        if let Err(error) = pmp::start_hart(self.domain) {
            panic!("{error}");
        }
        own
    }
}

/// The calling hart, with the operations that only it may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThisHart(&'static Hart);

impl Deref for ThisHart {
    type Target = Hart;

    fn deref(&self) -> &Hart {
        self.0
    }
}

pub(crate) fn this_hart() -> ThisHart {
    let pointer = core::ptr::with_exposed_provenance::<Hart>(thread_pointer());
    // SAFETY: `Hart::init` set the thread pointer to a hart of the list, which is never freed,
    // before this can be called. entry.S sets it again at each trap.
    ThisHart(unsafe { &*pointer })
}

impl ThisHart {
    pub(crate) fn is(self, hart: &Hart) -> bool {
        core::ptr::eq(self.0, hart)
    }

    pub(crate) fn hsm(self) -> LocalHsm<'static> {
        self.0.hsm.local()
    }

    /// Sets the CSRs that an OS expects at a start.
    pub(crate) fn set_up_csrs(self) {
        let kept = Kept {
            interrupts: self.interrupt(),
            illegal_instructions: !counters::all_are_there(),
            // Of several domains only the UART's owner has mediated registers.
            access_faults: pmp::is_there()
                && self.domain.has_console
                && !platform().mediated.is_empty(),
            external_interrupts: !self.domain.takes_interrupts,
        };
        let environment = Environment::of(&self.description.extensions, kept);
        let trap_entry = entry::trap_entry as *const () as u64;
        // SAFETY: trap.rs handles all traps that the environment does not delegate. The environment
        // follows the tree's description of this hart.
        let set_up = unsafe { poorwill_arch::environment::set_up(&environment, trap_entry) };
        if let Err(error) = set_up {
            panic!("{error}");
        }
        self.timer().stop_machine_timer();
    }

    pub(crate) fn timer(self) -> HartTimer {
        self.0.timer
    }

    /// The OS's state on this hart.
    pub(crate) fn access(self) -> OsContext {
        OsContext::new(self.timer(), self.description.os_imsic)
    }

    /// Bits of `mie` for machine mode's own interrupts on this hart.
    pub(crate) fn interrupt(self) -> u64 {
        let has_line = self.is_first() && power_fail::line().is_some();
        let line = if has_line { interrupt::MEI } else { 0 };
        self.0.ipi.interrupt() | line
    }

    /// Clears an IPI that the OS has not seen yet; returns whether there was one.
    pub(crate) fn clear_supervisor_ipi(self) -> bool {
        let is_pending = csr::read::<{ csr::MIP }>() & interrupt::SSI != 0;
        if is_pending {
            // SAFETY: SSIP is the OS's own.
            unsafe { csr::clear::<{ csr::MIP }>(interrupt::SSI) };
        }
        is_pending
    }

    /// Enters the OS after a call that does not return.
    ///
    /// # Safety
    ///
    /// The OS may execute at the address.
    pub(crate) unsafe fn enter(self, point: EntryPoint) -> ! {
        // SAFETY: by the caller's contract.
        unsafe { entry::enter(point, self.domain.mode_at_start(), self.stack_top()) }
    }

    /// Takes the power-fail line's interrupt, clears the IPI and serves the requests. Callers that
    /// wait for a start or a job check for these themselves.
    pub(crate) fn handle_ipi(self) {
        if let Some(line) = power_fail::line().filter(|_| self.is_first()) {
            line.take();
        }
        self.take_requests();
    }

    /// Clears the IPI and serves the requests. A hart calls this before its state is saved, so that
    /// the state includes requests that senders count as sent.
    pub(crate) fn take_requests(self) {
        let requests = self.0.mailbox.receive(&self.0.ipi);
        if requests.contains(Request::Fence) {
            self.domain().fences.run_under_way();
            self.0.mailbox.complete(Request::Fence);
        }
        if requests.contains(Request::SupervisorIpi) {
            // SAFETY: SSIP is the OS's own.
            unsafe { csr::set::<{ csr::MIP }>(interrupt::SSI) };
        }
    }

    /// Clears the IPI, before any hart can send a request.
    pub(crate) fn clear_ipi(self) {
        self.0.ipi.clear();
    }

    /// Waits for an IPI or another enabled interrupt, and handles it.
    pub(crate) fn wait_for_ipi(self) {
        let enabled = csr::read::<{ csr::MIE }>();
        // SAFETY: machine mode's interrupts are off; its own interrupt only ends the wait.
        unsafe { csr::set::<{ csr::MIE }>(self.interrupt()) };
        wait_for_interrupt();
        // SAFETY: restores the old value.
        unsafe { csr::write::<{ csr::MIE }>(enabled) };
        self.handle_ipi();
    }

    /// Runs a requested fence. For loops that wait for other harts, since these may wait for the
    /// fence.
    pub(crate) fn serve_fence(self) {
        if self.0.mailbox.is_posted(Request::Fence) {
            self.domain().fences.run_under_way();
            self.0.mailbox.complete(Request::Fence);
        }
    }

    /// Stops the hart until another starts it. Its call chain ends here; `stopped.rs` continues.
    pub(crate) fn wait(self) -> ! {
        // SAFETY: the stack is this hart's, and its call chain is dropped.
        unsafe { entry::restart(self.stack_top()) }
    }
}

/// Prints the most bytes ever used of the deep stack, and of any hart's own; `weak`: the top of the
/// weak hart's.
#[cfg(feature = "stack-marks")]
pub(crate) fn say_stacks(weak: Option<usize>) {
    let tops = all().iter().map(Hart::stack_top).chain(weak);
    let (deep, small) = crate::entry::stack::most_used(tops);
    crate::platform::console::say!("stacks deep_bytes={deep} hart_bytes={small}");
}
