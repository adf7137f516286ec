//! Harts: their states as HSM knows them, and what they ask of each other.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use poorwill_devicetree as devicetree;
use poorwill_drivers::Registers;
use poorwill_drivers::clint::Timer;
use thiserror::Error;

use crate::arch::csr::{self, interrupt};
use crate::arch::fence;
use crate::arch::{self, Resume};
use crate::crew::Helper;
use crate::platform::interrupts;
use crate::platform::mmio::Mmio;
use crate::platform::{platform, pmp};
use crate::sbi::rfence;

/// The states of a hart (SBI 3.0, section 9.1). Suspending within a call is
/// the hart's own affair, so it has no state here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Runs the OS.
    Started = 0,
    /// Waits to be started.
    Stopped = 1,
    /// Has been told to start.
    StartPending = 2,
    /// Is on its way to a stop.
    StopPending = 3,
    /// Waits within a call for an interrupt.
    Suspended = 4,
}

impl State {
    fn from_number(number: u8) -> State {
        match number {
            0 => State::Started,
            2 => State::StartPending,
            3 => State::StopPending,
            4 => State::Suspended,
            _ => State::Stopped,
        }
    }
}

/// A change of state that was not to be: the hart was in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the hart is {0:?}")]
pub(crate) struct WrongState(pub(crate) State);

/// What a hart does when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Enter the OS there.
    Start(Resume),
    /// Put the OS's registers of this hart back, then go on there.
    Wake(Resume),
}

/// One hart.
#[derive(Debug)]
pub(crate) struct Hart {
    /// What the device tree says of it.
    pub(crate) description: devicetree::Hart,
    /// Its machine timer.
    pub(crate) timer: Option<Timer<Mmio>>,
    doorbell: Option<Doorbell>,
    state: AtomicU8,
    stack_top: AtomicUsize,
    /// The OS asked for a software interrupt on this hart.
    os_ipi: AtomicBool,
    /// Fences that this hart is asked for.
    pub(crate) fences: rfence::Inbox,
    /// The next start's task; valid from `task_ready` on, written by whoever
    /// moved the hart to `StartPending`.
    task_address: AtomicU64,
    task_argument: AtomicU64,
    task_wakes: AtomicBool,
    task_ready: AtomicBool,
}

/// How to interrupt a hart in machine mode.
#[derive(Clone, Copy, Debug)]
enum Doorbell {
    /// MSIP register: one rings, zero silences.
    Msip(Mmio),
    /// The hart's machine-mode IMSIC file.
    Imsic(Mmio),
}

impl Hart {
    /// The hart that the device tree describes.
    ///
    /// # Safety
    ///
    /// It is a hart of this machine.
    pub(crate) unsafe fn new(description: devicetree::Hart) -> Self {
        // SAFETY: passed on to the caller.
        let mmio = |address| unsafe { Mmio::new(address) };
        let msip = description
            .msip
            .map(|address| Doorbell::Msip(mmio(address)));
        let imsic = description
            .machine_imsic
            .map(|address| Doorbell::Imsic(mmio(address)));
        Hart {
            description,
            timer: description.mtimecmp.map(mmio).map(Timer::new),
            doorbell: msip.or(imsic),
            state: AtomicU8::new(State::Stopped as u8),
            stack_top: AtomicUsize::new(0),
            os_ipi: AtomicBool::new(false),
            fences: rfence::Inbox::new(),
            task_address: AtomicU64::new(0),
            task_argument: AtomicU64::new(0),
            task_wakes: AtomicBool::new(false),
            task_ready: AtomicBool::new(false),
        }
    }

    /// Its ID.
    pub(crate) fn id(&self) -> u64 {
        self.description.id
    }

    /// Its state now.
    pub(crate) fn state(&self) -> State {
        State::from_number(self.state.load(Ordering::Acquire))
    }

    /// Moves it from one state to the next.
    ///
    /// # Errors
    ///
    /// [`WrongState`] when it was in another one; nothing has changed then.
    pub(crate) fn advance(&self, from: State, to: State) -> Result<(), WrongState> {
        self.state
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(|found| WrongState(State::from_number(found)))
    }

    /// Starts the hart, if it is stopped.
    ///
    /// # Errors
    ///
    /// [`WrongState`].
    pub(crate) fn start(&self, task: Task) -> Result<(), WrongState> {
        self.advance(State::Stopped, State::StartPending)?;
        let (resume, wakes) = match task {
            Task::Start(resume) => (resume, false),
            Task::Wake(resume) => (resume, true),
        };
        self.task_address.store(resume.address, Ordering::Relaxed);
        self.task_argument.store(resume.argument, Ordering::Relaxed);
        self.task_wakes.store(wakes, Ordering::Relaxed);
        self.task_ready.store(true, Ordering::Release);
        self.ring();
        Ok(())
    }

    fn take_task(&self) -> Option<Task> {
        if !self.task_ready.swap(false, Ordering::AcqRel) {
            return None;
        }
        let resume = Resume {
            address: self.task_address.load(Ordering::Relaxed),
            argument: self.task_argument.load(Ordering::Relaxed),
        };
        Some(if self.task_wakes.load(Ordering::Relaxed) {
            Task::Wake(resume)
        } else {
            Task::Start(resume)
        })
    }

    /// Interrupts the hart for the OS.
    pub(crate) fn send_os_ipi(&self) {
        self.os_ipi.store(true, Ordering::Release);
        self.ring();
    }

    /// Interrupts the hart in machine mode, which then finds what was written
    /// for it before.
    pub(crate) fn ring(&self) {
        fence::before_device_write();
        match self.doorbell {
            Some(Doorbell::Msip(register)) => register.write(0, 1_u32),
            Some(Doorbell::Imsic(file)) => file.write(0, interrupts::IPI_IDENTITY),
            None => {}
        }
    }

    /// Answers the doorbell; run on the hart itself.
    pub(crate) fn answer(&self) {
        match self.doorbell {
            Some(Doorbell::Msip(register)) => register.write(0, 0_u32),
            Some(Doorbell::Imsic(_)) => interrupts::take_machine_interrupts(),
            None => {}
        }
        // The bell is silenced before the requests are looked at, so that one
        // that comes in between rings again.
        fence::after_device_write();
        self.fences.serve();
        if self.os_ipi.swap(false, Ordering::AcqRel) {
            // SAFETY: SSIP is the OS's own.
            unsafe { csr::set::<{ csr::MIP }>(interrupt::SSI) };
        }
    }

    /// Makes the calling hart this one: its stack, its thread pointer, its
    /// CSRs as the OS is to find them at a start.
    pub(crate) fn settle(&'static self, stack_top: usize) {
        self.stack_top.store(stack_top, Ordering::Relaxed);
        arch::set_thread_pointer(core::ptr::from_ref(self).expose_provenance());
        crate::trap::start_hart(self);
        interrupts::start_hart(self);
        if let Err(error) = pmp::start_hart() {
            panic!("{error}");
        }
    }

    /// The top of its stack.
    pub(crate) fn stack_top(&self) -> usize {
        self.stack_top.load(Ordering::Relaxed)
    }

    /// Stops the calling hart until someone starts it; its call chain ends here.
    pub(crate) fn wait(&self) -> ! {
        // SAFETY: the stack is this hart's, and the chain is given up.
        unsafe { arch::restart(self.stack_top()) }
    }
}

/// The hart that runs this.
pub(crate) fn this_hart() -> &'static Hart {
    let pointer = core::ptr::with_exposed_provenance::<Hart>(arch::thread_pointer());
    // SAFETY: `settle` set the thread pointer to a hart of the platform before
    // anything could call this, and entry.S sets it again at each trap.
    unsafe { &*pointer }
}

/// All harts.
pub(crate) fn all() -> impl Iterator<Item = &'static Hart> {
    platform().harts.iter()
}

/// All harts but the one that runs this.
pub(crate) fn others() -> impl Iterator<Item = &'static Hart> {
    let own = this_hart();
    all().filter(move |hart| !core::ptr::eq(*hart, own))
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
    match others().find(|hart| hart.state() != State::Stopped) {
        Some(running) => Err(running),
        None => Ok(OthersStopped(())),
    }
}

/// The hart with the given ID.
pub(crate) fn find(id: u64) -> Option<&'static Hart> {
    all().find(|hart| hart.id() == id)
}

/// Waits for a task, with this hart's stack empty, and helps the crew meanwhile.
/// The hart is stopped, or on its way there.
#[unsafe(no_mangle)]
extern "C" fn wait_for_start() -> ! {
    let hart = this_hart();
    arch::stack::verify(hart.stack_top());
    // SAFETY: machine mode waits for its own doorbell and nothing else; what
    // the OS had pending or enabled ends with the stop.
    unsafe {
        csr::write::<{ csr::MIE }>(interrupt::MSI | interrupt::MEI);
        csr::clear::<{ csr::MIP }>(interrupt::SSI | interrupt::STI);
    }
    // Whoever stops has fences that it was asked for as a running hart.
    hart.answer();
    if hart.advance(State::StopPending, State::Stopped).is_err() {
        debug_assert_ne!(hart.state(), State::Started);
    }
    let mut helper = Helper::new();
    let task = loop {
        hart.answer();
        if let Some(task) = hart.take_task() {
            break task;
        }
        // A task that came while it helped is found before it waits.
        if !helper.help() {
            arch::wait_for_interrupt();
        }
    };
    crate::trap::start_hart(hart);
    let resume = match task {
        Task::Start(resume) => resume,
        Task::Wake(resume) => {
            crate::sleep::restore_hart();
            resume
        }
    };
    // Only this hart leaves `StartPending`.
    let _ = hart.advance(State::StartPending, State::Started);
    // SAFETY: whoever set the task checked the address.
    unsafe { arch::enter(resume, hart.stack_top()) }
}
