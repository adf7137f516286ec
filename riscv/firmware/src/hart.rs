//! The harts of the machine: each with what the device tree says of it, its HSM
//! state, what is asked of it, its timer and its stack.

use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::ipi::{self, Ipi};
use poorwill_arch::{
    HartTimer, OsContext, csr, hart_timer, set_thread_pointer, thread_pointer, wait_for_interrupt,
};
use poorwill_devicetree::{self as devicetree, MAX_HARTS};
use poorwill_hart::interrupt;
use poorwill_hart::{
    Environment, HsmCell, HsmState, IpiDevice, Kept, LocalHsm, Mailbox, Request, Resume, Task,
    WrongState,
};
use spin::Once;

use crate::entry;
use crate::platform::{platform, pmp, power_fail};
use crate::remote_fence;

/// One hart, as any hart may use it.
#[derive(Debug)]
pub(crate) struct Hart {
    /// What the device tree says of it.
    pub(crate) description: devicetree::Hart,
    hsm: HsmCell,
    mailbox: Mailbox,
    ipi: Ipi,
    timer: HartTimer,
    stack_top: AtomicUsize,
}

static HARTS: Once<ArrayVec<Hart, MAX_HARTS>> = Once::new();

/// Learns which harts there are, before any but the boot hart uses them.
///
/// # Safety
///
/// They are the harts of this machine that can run the OS.
pub(crate) unsafe fn start(described: &[devicetree::Hart]) {
    HARTS.call_once(|| {
        let harts = described.iter().map(|description| Hart {
            description: *description,
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
    power_fail::tell_by(tell_power_fails);
}

/// All harts that can run the OS.
pub(crate) fn all() -> &'static [Hart] {
    // Before they are known there are none to find.
    HARTS.get().map_or(&[], |harts| harts)
}

/// All harts but the one that runs this.
pub(crate) fn others() -> impl Iterator<Item = &'static Hart> {
    let own = this_hart();
    all().iter().filter(move |hart| !own.is(hart))
}

/// Has all others stop, as the power fails.
fn tell_power_fails() {
    others().for_each(|hart| hart.send_ipi(Request::Cut));
}

/// The proof that no hart but the calling one runs the OS, or is about to.
///
/// It holds for as long as the calling hart is in machine mode: only who runs the OS
/// starts a hart.
#[derive(Debug)]
pub(crate) struct OthersStopped(());

/// Whether the other harts are stopped.
///
/// # Errors
///
/// One that is not.
pub(crate) fn others_stopped() -> Result<OthersStopped, &'static Hart> {
    match others().find(|hart| hart.state() != HsmState::Stopped) {
        Some(running) => Err(running),
        None => Ok(OthersStopped(())),
    }
}

/// The hart with the given ID.
pub(crate) fn find(id: u64) -> Option<&'static Hart> {
    all().iter().find(|hart| hart.id() == id)
}

impl Hart {
    /// Its ID.
    pub(crate) fn id(&self) -> u64 {
        self.description.id
    }

    /// Its state now.
    pub(crate) fn state(&self) -> HsmState {
        self.hsm.remote().state()
    }

    /// Where the OS is to start on it, while it has not yet.
    pub(crate) fn pending_start(&self) -> Option<Resume> {
        self.hsm.remote().pending_start()
    }

    /// Whether it is the first in the list, which the power-fail line interrupts.
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

    /// Asks the hart, and interrupts it in machine mode.
    pub(crate) fn send_ipi(&self, request: Request) {
        self.mailbox.send(request, &self.ipi);
    }

    /// Whether the hart has done what it was asked for, and waited for.
    pub(crate) fn has_done(&self, request: Request) -> bool {
        !self.mailbox.is_posted(request)
    }

    /// Whether it has come from entry.S: at its first start it may be late, or not come.
    pub(crate) fn has_arrived(&self) -> bool {
        self.stack_top() != 0
    }

    /// The top of its stack.
    pub(crate) fn stack_top(&self) -> usize {
        self.stack_top.load(Ordering::Relaxed)
    }

    /// Makes the calling hart this one: its stack, its thread pointer, its
    /// CSRs as the OS is to find them at a start.
    pub(crate) fn init(&'static self, stack_top: usize) -> ThisHart {
        self.stack_top.store(stack_top, Ordering::Relaxed);
        set_thread_pointer(core::ptr::from_ref(self).expose_provenance());
        let own = ThisHart(self);
        own.set_up_csrs();
        ipi::start_hart(&self.description);
        if let Some(line) = platform().power_fail.as_ref().filter(|_| self.is_first()) {
            line.start_hart();
        }
        if let Err(error) = pmp::start_hart() {
            panic!("{error}");
        }
        own
    }
}

/// The hart that runs the call, and what only it may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThisHart(&'static Hart);

impl Deref for ThisHart {
    type Target = Hart;

    fn deref(&self) -> &Hart {
        self.0
    }
}

/// The hart that runs this.
pub(crate) fn this_hart() -> ThisHart {
    let pointer = core::ptr::with_exposed_provenance::<Hart>(thread_pointer());
    // SAFETY: `Hart::init` set the thread pointer to a hart of the list, which is
    // never freed, before anything could call this, and entry.S sets it again at
    // each trap.
    ThisHart(unsafe { &*pointer })
}

impl ThisHart {
    /// Whether it is that one.
    pub(crate) fn is(self, hart: &Hart) -> bool {
        core::ptr::eq(self.0, hart)
    }

    /// Its HSM state, to change it.
    pub(crate) fn hsm(self) -> LocalHsm<'static> {
        self.0.hsm.local()
    }

    /// Gives it the CSRs that an OS must find at a start.
    pub(crate) fn set_up_csrs(self) {
        let kept = Kept {
            interrupts: self.interrupt(),
            access_faults: pmp::is_there() && !platform().mediated.is_empty(),
        };
        let environment = Environment::of(&self.description.extensions, kept);
        let trap_entry = entry::trap_entry as *const () as u64;
        // SAFETY: trap.rs serves what the environment does not delegate, which is made
        // of what the tree says that this hart has.
        unsafe { poorwill_arch::environment::set_up(&environment, trap_entry) };
        self.timer().stop_machine_timer();
    }

    /// Its timer.
    pub(crate) fn timer(self) -> HartTimer {
        self.0.timer
    }

    /// What it holds for the OS.
    pub(crate) fn access(self) -> OsContext {
        OsContext::new(self.timer(), platform().interrupts.file())
    }

    /// What machine mode is interrupted by on it.
    pub(crate) fn interrupt(self) -> u64 {
        let has_line = self.is_first() && platform().power_fail.is_some();
        let line = if has_line { interrupt::MEI } else { 0 };
        self.0.ipi.interrupt() | line
    }

    /// Takes back an IPI that its OS has not seen yet; whether there was one.
    pub(crate) fn clear_supervisor_ipi(self) -> bool {
        let is_pending = csr::read::<{ csr::MIP }>() & interrupt::SSI != 0;
        if is_pending {
            // SAFETY: SSIP is the OS's own.
            unsafe { csr::clear::<{ csr::MIP }>(interrupt::SSI) };
        }
        is_pending
    }

    /// Tells the others, where the power-fail line interrupts this hart.
    fn look_for_power_fail(self) {
        let line = platform().power_fail.as_ref();
        if line.is_some_and(|line| self.is_first() && line.begins()) {
            tell_power_fails();
        }
    }

    /// Enters the OS behind a call that does not return.
    ///
    /// # Safety
    ///
    /// The address is the OS's to execute.
    pub(crate) unsafe fn enter(self, resume: Resume) -> ! {
        // SAFETY: as the caller says.
        unsafe { entry::enter(resume, self.stack_top()) }
    }

    /// Clears the interrupt by other harts, then does what they ask, and looks for the
    /// power-fail line. Who comes for a start or a job looks for them itself.
    pub(crate) fn handle_ipi(self) {
        self.look_for_power_fail();
        self.take_requests();
    }

    /// Clears the interrupt by other harts, then does what they ask. A hart whose state is
    /// written down calls this before: what others were told is sent is in its state then.
    pub(crate) fn take_requests(self) {
        let requests = self.0.mailbox.receive(&self.0.ipi);
        if requests.contains(Request::Fence) {
            remote_fence::run_under_way();
            self.0.mailbox.complete(Request::Fence);
        }
        if requests.contains(Request::SupervisorIpi) {
            // SAFETY: SSIP is the OS's own.
            unsafe { csr::set::<{ csr::MIP }>(interrupt::SSI) };
        }
    }

    /// Clears the interrupt by other harts, before any can ask for something.
    pub(crate) fn clear_ipi(self) {
        self.0.ipi.clear();
    }

    /// Waits for an IPI, or another interrupt that is enabled, and handles it.
    pub(crate) fn wait_for_ipi(self) {
        let enabled = csr::read::<{ csr::MIE }>();
        // SAFETY: machine mode's interrupts are off: its own only ends the wait.
        unsafe { csr::set::<{ csr::MIE }>(self.interrupt()) };
        wait_for_interrupt();
        // SAFETY: as it was.
        unsafe { csr::write::<{ csr::MIE }>(enabled) };
        self.handle_ipi();
    }

    /// Runs the fence that it is asked for, if any: for loops in which it waits for
    /// other harts, who may wait for it.
    pub(crate) fn serve_fence(self) {
        if self.0.mailbox.is_posted(Request::Fence) {
            remote_fence::run_under_way();
            self.0.mailbox.complete(Request::Fence);
        }
    }

    /// Stops the hart until someone starts it; its call chain ends here, and
    /// `stopped.rs` goes on.
    pub(crate) fn wait(self) -> ! {
        // SAFETY: the stack is this hart's, and the chain is given up.
        unsafe { entry::restart(self.stack_top()) }
    }
}
