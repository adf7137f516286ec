//! Stop: the steps of each hart.

use core::cell::{Cell, OnceCell};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use poorwill_arch::csr;
use poorwill_devicetree::MAX_HARTS;
use poorwill_drivers::ShutDomains;
use poorwill_hart::Execution;
use poorwill_image::{StateWriter, Workers};
use poorwill_keepers::Drivers;
use poorwill_memory::EntryPoint;
use poorwill_sleep::cut::{
    self, CutMemory, CutReason, Layout, Place, Proof, RequestMachine, StopMachine, WearWords,
};
use spin::{Mutex, Once};
use zerocopy::IntoBytes;

use super::devices::Devices;
use super::line::line;
use super::record::{Part, Record, record};
use super::shared::{self, LONE};
use super::{key, sealed};
use crate::entry::{self, TrapFrame};
use crate::hart::workers::StoppedHarts;
use crate::hart::{self, Hart, ThisHart, domain_state, place_of, this_hart, waking};
use crate::platform::power::{self, PowerOff};
use crate::platform::{platform, power_fail, virtio};
use poorwill_state::part;
use poorwill_state::{Keep, Saving, Store};

/// Maximum wait of a request for the other harts' write-back of their caches.
const PATIENCE_MS: u64 = 1000;

/// Maximum wait of a request for devices. It is long, since the power is good.
const QUIET_MS: u64 = 5000;

/// The state of a Stop that harts share.
pub(super) struct StopState {
    /// The lock of the coordinator: the first hart at a power failure, or the hart whose OS asks
    /// for a cut. After a commit it stays locked.
    pub(super) coordinator: Mutex<()>,
    /// A bit for each hart that has finished its last call, and sends no more interrupts. The bit's
    /// number is the hart's index. The first hart has no bit.
    halted: AtomicU64,
    /// The number of the cut. It is 0 while a hart or device may still interrupt harts, which then
    /// must not write their parts.
    sequence: AtomicU64,
    /// Number of harts but the first that have written their parts.
    gathered: AtomicUsize,
    /// The first error of a hart that could not write its part.
    refused: Once<CutReason>,
}

pub(super) static STATE: StopState = StopState {
    coordinator: Mutex::new(()),
    halted: AtomicU64::new(0),
    sequence: AtomicU64::new(0),
    gathered: AtomicUsize::new(0),
    refused: Once::new(),
};

const _: () = assert!(MAX_HARTS <= u64::BITS as usize);

/// Stops the calling hart at the end of a trap of the OS, and never returns. `frame` is the trap's;
/// `None` if the hart runs no OS.
pub(crate) fn stop(frame: Option<&TrapFrame>) -> ! {
    if let Some(record) = record() {
        record.on_stack(|| stop_on_own_stack(Stopping::new(record, frame)))
    }
    entry::halt()
}

/// Enters the OS on the calling hart, after a call that does not return. If the power fails, stops
/// the hart at that point instead. A hart whose domain has ended stays in machine mode.
///
/// # Safety
///
/// The OS may execute at the address.
pub(crate) unsafe fn enter_os(own: ThisHart, entry_point: EntryPoint) -> ! {
    if power_fail::noticed() {
        // The call may have taken the interrupt for Stop, and memory may be sealed.
        stop(Some(&entry::frame_at(entry_point)));
    }
    domain_state::leave_if_ended(own);
    // SAFETY: by the caller's contract.
    unsafe { own.enter(entry_point) }
}

fn stop_on_own_stack(machine: Stopping<'_>) -> ! {
    let own = machine.own;
    if own.is_first() {
        coordinate(&machine)
    }
    // This also orders the OS's stores to interrupt files, which no ordering of memory covers.
    poorwill_arch::fence::everything();
    STATE
        .halted
        .fetch_or(1 << place_of(&own), Ordering::Release);
    let sequence = loop {
        match STATE.sequence.load(Ordering::Acquire) {
            0 => own.serve_fence(),
            sequence => break sequence,
        }
    };
    match machine.save_last(sequence) {
        Ok(()) => {
            STATE.gathered.fetch_add(1, Ordering::Release);
        }
        Err(reason) => {
            STATE.refused.call_once(|| reason);
        }
    }
    loop {
        // Serves harts that have not stopped yet.
        own.serve_fence();
        core::hint::spin_loop();
    }
}

/// Stops the other harts, cuts the machine, and switches it off.
fn coordinate(machine: &Stopping<'_>) -> ! {
    hart::others().for_each(Hart::ring);
    // A hart whose OS asked for a cut unlocks the coordinator's lock, or commits its cut.
    let _coordinator = loop {
        match STATE.coordinator.try_lock() {
            Some(coordinator) => break coordinator,
            None if machine.ticks() > line().hold_up_ticks() => power::switch_off(PowerOff::NotCut),
            None => machine.own.serve_fence(),
        }
    };
    power::switch_off(match cut::stop(machine) {
        Ok(committed) => PowerOff::Cut(committed),
        // The record contains the reason.
        Err(_) => PowerOff::NotCut,
    })
}

/// A Stop in progress, on one hart.
pub(super) struct Stopping<'a> {
    record: Record,
    own: ThisHart,
    /// The frame of the trap in which the hart stops; `None` if it runs no OS.
    frame: Option<&'a TrapFrame>,
    /// Set on the hart whose OS asks for the cut.
    request: Option<Request>,
    /// DOMAINCFG of the OS's APLICs from before they were shut.
    shut: OnceCell<ShutDomains>,
}

/// A cut that the OS asks for.
pub(super) struct Request {
    /// The address at which the OS will continue.
    pub(super) vector: EntryPoint,
    /// The time of the OS's call, in ticks.
    pub(super) began: u64,
    /// Bytes of the devices' part, once a device may be quiet. The undo of a refused cut needs
    /// them.
    pub(super) quieted: Cell<Option<u64>>,
}

impl<'a> Stopping<'a> {
    /// A Stop of the calling hart.
    pub(super) fn new(record: Record, frame: Option<&'a TrapFrame>) -> Self {
        Stopping {
            record,
            own: this_hart(),
            frame,
            request: None,
            shut: OnceCell::new(),
        }
    }

    /// A Stop that the OS of the calling hart asks for.
    pub(super) fn asked(record: Record, request: Request) -> Self {
        Stopping {
            request: Some(request),
            ..Self::new(record, None)
        }
    }

    /// Writes the calling hart's part, which includes the interrupts that other harts have posted.
    pub(super) fn save(&self, sequence: u64) -> Result<(), CutReason> {
        self.own.take_requests();
        let mut part = self.record.part(Layout::hart(place_of(&self.own)));
        let bytes = match (&self.request, self.frame) {
            (Some(request), _) => {
                let mut writer = StateWriter::new(part.pages_mut());
                waking::capture(request.vector, waking::now(), &mut writer)?;
                writer.finish()
            }
            (None, Some(frame)) => write_part(self.own, frame, &mut part)?,
            (None, None) => 0,
        };
        part.enter(sequence, bytes)
    }

    /// As [`save`](Self::save), then writes the calling hart's caches back. The hart stores nothing
    /// after this.
    fn save_last(&self, sequence: u64) -> Result<(), CutReason> {
        self.save(sequence)?;
        are_written_back(self.own, line().caches().write_back_own())
    }

    /// Lets each other hart enter its empty part and write its caches back. The OS has stopped
    /// these harts, so pending interrupts of theirs do not matter.
    fn gather_stopped(&self, sequence: u64) -> Result<(), CutReason> {
        let record = self.record;
        let gathered = AtomicUsize::new(0);
        let work = || {
            let save = || Stopping::new(record, None).save_last(sequence);
            if record.on_stack(save).is_ok() {
                gathered.fetch_add(1, Ordering::Release);
            }
        };
        let others = hart::all().len() - 1;
        let are_gathered = || gathered.load(Ordering::Acquire) == others;
        let time = &platform().time;
        let asked = time.ticks();
        // Harts that have noticed a power failure stop for it instead.
        let is_over = || power_fail::noticed() || time.milliseconds_since(asked) >= PATIENCE_MS;
        let mut coordinate = || {
            while !are_gathered() && !is_over() {
                core::hint::spin_loop();
            }
        };
        StoppedHarts.run(&mut coordinate, &work);
        match are_gathered() {
            true => Ok(()),
            false => Err(self.missing(sequence)),
        }
    }

    /// The ID of a hart that has not stopped, except the calling one.
    fn running(&self) -> Option<u64> {
        let halted = STATE.halted.load(Ordering::Acquire);
        let mut harts = hart::all().iter().enumerate();
        let running = harts.find(|(place, hart)| !self.own.is(hart) && halted >> place & 1 == 0);
        running.map(|(_, hart)| hart.id())
    }

    /// The error that names a hart without a part of this cut.
    fn missing(&self, sequence: u64) -> CutReason {
        let is_missing = |place: usize| {
            let entry = Place::Part(Layout::hart(place));
            let entry = self.record.line(entry).read_part();
            entry.is_none_or(|(of, _)| of != sequence)
        };
        let mut harts = hart::all().iter().enumerate();
        let missing = harts.find(|(place, _)| is_missing(*place));
        CutReason::HartNotStopped(missing.map_or(0, |(_, hart)| hart.id()))
    }
}

/// Turns a failed write-back of caches into an error.
pub(super) fn are_written_back(own: ThisHart, is_done: bool) -> Result<(), CutReason> {
    is_done.then_some(()).ok_or(CutReason::CachesLeft(own.id()))
}

/// Writes the state that all harts share. Returns its bytes. After a request for a sleep, the OS
/// continues at `vector`. `shut` is DOMAINCFG of the OS's APLICs from before they were shut.
///
/// # Errors
///
/// [`CutReason::NoRoom`], [`CutReason::DeviceState`].
pub(super) fn write_shared(
    part: &mut Part,
    vector: Option<EntryPoint>,
    shut: Option<&ShutDomains>,
) -> Result<u64, CutReason> {
    let mut writer = StateWriter::new(part.pages_mut());
    let saving = Saving {
        store: Store::Record,
        vector,
        shut,
    };
    LONE.save(&saving, &mut writer)?;
    Ok(writer.finish())
}

/// Writes the device tree's memory, which a loader overwrites at the next power-on. Returns its
/// bytes.
///
/// # Errors
///
/// [`CutReason::NoRoom`].
///
/// # Safety
///
/// No hart runs the OS.
pub(super) unsafe fn write_tree(part: &mut Part, own: ThisHart) -> Result<u64, CutReason> {
    // SAFETY: by the caller's contract.
    let memory = unsafe { shared::loaded_memory(own) };
    let bytes = memory.len() as u64;
    let room = part.pages_mut().as_mut_bytes().get_mut(..memory.len());
    room.ok_or(CutReason::NoRoom(bytes))?
        .copy_from_slice(memory);
    Ok(bytes)
}

impl StopMachine for Stopping<'_> {
    fn record(&self) -> &impl CutMemory {
        &self.record
    }

    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        self.record.with_proof(job)
    }

    fn forget(&self) -> Result<(), CutReason> {
        key::forget()
    }

    fn halt(&self, sequence: u64) -> Result<(), CutReason> {
        if self.request.is_some() {
            // Gathers the harts here, not in `gather`. Devices may take long to be quiet, and a
            // hart that notices a power failure during that does no more work.
            return self.gather_stopped(sequence);
        }
        let limit = line().hold_up_ticks() / 2;
        while let Some(hart) = self.running() {
            self.own.serve_fence();
            if self.ticks() > limit {
                return Err(CutReason::HartNotStopped(hart));
            }
        }
        Ok(())
    }

    fn quiet(&self, sequence: u64) -> Result<(), CutReason> {
        let mut iommus = platform().iommus.iter();
        let iommu = iommus.find(|(_, iommu)| iommu.is_on());
        let live = iommu.map(|(address, _)| *address).or_else(virtio::live);
        if let Some(address) = live {
            return Err(CutReason::LiveDevice(address));
        }
        // SAFETY: no hart runs the OS, and the coordinator alone uses its devices.
        let devices = unsafe { Devices::new(self.record) };
        if sealed::left().is_some() && devices.reach_memory()? {
            return Err(CutReason::Sealed);
        }
        let time = &platform().time;
        let until = match self.request {
            Some(_) => time.ticks() + time.ticks_in(QUIET_MS * 1_000_000),
            None => power_fail::since() + line().quiet_ticks(),
        };
        // The OS has suspended its devices before it asked for a sleep, or for the save that the
        // power failure ended.
        let drivers = match self.request.is_some() || sealed::is_refused() {
            true => Drivers::Suspended,
            false => Drivers::Running,
        };
        let mut part = self.record.part(Layout::DEVICES);
        let (bytes, quieted) = devices.stop(drivers, until, part.pages_mut());
        if let Some(request) = &self.request {
            request.quieted.set(Some(bytes));
        }
        quieted?;
        part.enter(sequence, bytes)
    }

    fn shut(&self) -> Result<(), CutReason> {
        let (controllers, time) = (platform().interrupts.of(0), &platform().time);
        _ = self.shut.set(controllers.shut());
        // The APLIC sends a message within a few ns.
        let until = time.ticks() + line().hold_up_ticks() / 16;
        while controllers.are_sending() {
            if time.ticks() > until {
                return Err(CutReason::MessageLeft);
            }
        }
        Ok(())
    }

    fn gather(&self, sequence: u64) -> Result<(), CutReason> {
        if self.request.is_some() {
            return self.save(sequence);
        }
        STATE.sequence.store(sequence, Ordering::Release);
        self.save(sequence)?;
        let others = hart::all().len() - 1;
        let limit = line().hold_up_ticks();
        while STATE.gathered.load(Ordering::Acquire) < others {
            if let Some(reason) = STATE.refused.get() {
                return Err(*reason);
            }
            if self.ticks() > limit {
                return Err(self.missing(sequence));
            }
        }
        Ok(())
    }

    fn capture(&self, sequence: u64) -> Result<(), CutReason> {
        let vector = self.request.as_ref().map(|request| request.vector);
        let mut shared = self.record.part(Layout::SHARED);
        let bytes = write_shared(&mut shared, vector, self.shut.get())?;
        shared.enter(sequence, bytes)?;
        let mut tree = self.record.part(Layout::TREE);
        // SAFETY: no hart runs the OS.
        let bytes = unsafe { write_tree(&mut tree, self.own) }?;
        tree.enter(sequence, bytes)
    }

    fn ticks(&self) -> u64 {
        let request = self.request.as_ref();
        let began = request.map_or_else(power_fail::since, |request| request.began);
        platform().time.ticks().saturating_sub(began)
    }

    fn has_memory_error(&self) -> bool {
        line().controller().has_error()
    }

    fn wear(&self) -> WearWords {
        line().controller().wear()
    }

    fn flush(&self) -> Result<(), CutReason> {
        // The other harts have written back their own caches.
        are_written_back(self.own, line().caches().write_back_rest())
    }
}

impl RequestMachine for Stopping<'_> {
    fn resume(&self) {
        if let Some(shut) = self.shut.get() {
            platform().interrupts.of(0).reopen(shut);
        }
        let request = self.request.as_ref();
        if let Some(bytes) = request.and_then(|request| request.quieted.take()) {
            // SAFETY: no hart runs the OS, and this one alone uses its devices.
            let devices = unsafe { Devices::new(self.record) };
            devices.resume(self.record.part(Layout::DEVICES).pages(), bytes);
        }
    }
}

/// Writes the part of a hart whose OS was stopped at `frame`. Returns its bytes.
pub(super) fn write_part(
    own: ThisHart,
    frame: &TrapFrame,
    part: &mut Part,
) -> Result<u64, CutReason> {
    let stopped_at = Execution {
        x: frame.x.map(|register| register as u64),
        pc: frame.mepc as u64,
        status: frame.mstatus as u64,
        address_space: csr::read::<{ csr::SATP }>(),
        cycles: csr::read::<{ csr::MCYCLE }>(),
        instructions: csr::read::<{ csr::MINSTRET }>(),
    };
    part::write(own.id(), &own.access(), stopped_at, part.pages_mut())
}
