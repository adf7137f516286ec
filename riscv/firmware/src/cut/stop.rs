//! Stop, on each hart.

use core::cell::OnceCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use poorwill_devicetree::MAX_HARTS;
use poorwill_drivers::ShutDomains;
use poorwill_hart::Resume;
use poorwill_image::StateWriter;
use poorwill_keepers::Drivers;
use poorwill_sleep::cut::{
    self, CutMemory, CutReason, Layout, Place, Proof, StopMachine, WearWords,
};
use spin::Once;
use zerocopy::IntoBytes;

use super::devices::Devices;
use super::record::{Record, place_of, record};
use super::shared::{self, MACHINE};
use super::{WRITER, context, key, line, sealed};
use crate::entry::{self, TrapFrame, stack};
use crate::hart::{self, ThisHart, this_hart};
use crate::kept::{Keep, Saving, Store};
use crate::platform::{platform, power, power_fail, virtio};

/// The harts that have stopped, but for the first: a bit for each place. Such a hart has ended
/// its last call, and interrupts no other any more.
static HALTED: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(MAX_HARTS <= u64::BITS as usize);

/// The number of the cut that harts write their parts for; 0 while something may still interrupt
/// them.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);

/// How many harts have written theirs, but for the first.
static GATHERED: AtomicUsize = AtomicUsize::new(0);

/// Why one cannot.
static REFUSED: Once<CutReason> = Once::new();

/// Stops the calling hart for good: at the end of a trap of the OS, which `frame` is of, or
/// where the hart runs no OS.
pub(crate) fn stop(frame: Option<&TrapFrame>) -> ! {
    let own = this_hart();
    let place = place_of(&own);
    if let Some(record) = record() {
        let stack = record.stack(place);
        // SAFETY: the hart's own, and nothing of it is in use: a hart stops once.
        unsafe { stack::on(stack.end as usize, || stop_on(record, own, place, frame)) }
    }
    entry::park()
}

/// Enters the OS behind a call that does not return, on the calling hart; or stops it there.
///
/// # Safety
///
/// The address is the OS's to execute.
pub(crate) unsafe fn enter_or_stop(own: ThisHart, resume: Resume) -> ! {
    if power_fail::is_failing() {
        // The call may have taken the interrupt that is to stop this hart, and memory may be
        // sealed.
        stop(Some(&entry::frame_at(resume)));
    }
    // SAFETY: as the caller says.
    unsafe { own.enter(resume) }
}

fn stop_on(record: Record, own: ThisHart, place: usize, frame: Option<&TrapFrame>) {
    let machine = Stopping {
        record,
        own,
        place,
        frame,
        shut: OnceCell::new(),
    };
    if own.is_first() {
        // Whoever has asked for a cut is done with the record, or commits it, or the power is gone.
        let _writer = loop {
            match WRITER.try_lock() {
                Some(writer) => break writer,
                None if machine.ticks() > line().hold_up_ticks() => power::power_off(),
                None => own.serve_fence(),
            }
        };
        // Where it is not committed, the record says why.
        match cut::stop(&machine) {
            Ok(committed) => power::power_off_cut(committed),
            Err(_) => power::power_off(),
        }
    }
    // The OS's stores to interrupt files, too, which no ordering of memory covers.
    poorwill_arch::fence::everything();
    HALTED.fetch_or(1 << place, Ordering::Release);
    let sequence = loop {
        match SEQUENCE.load(Ordering::Acquire) {
            0 => own.serve_fence(),
            sequence => break sequence,
        }
    };
    match machine.save_last(sequence) {
        Ok(()) => {
            GATHERED.fetch_add(1, Ordering::Release);
        }
        Err(reason) => {
            REFUSED.call_once(|| reason);
        }
    }
    loop {
        // Of harts that are on their way here.
        own.serve_fence();
        core::hint::spin_loop();
    }
}

/// The machine on its way to a cut, as the hart sees it that stops.
pub(super) struct Stopping<'a> {
    pub(super) record: Record,
    pub(super) own: ThisHart,
    pub(super) place: usize,
    /// Of the trap in which it stops; `None` where it runs no OS.
    pub(super) frame: Option<&'a TrapFrame>,
    /// What the OS's APLICs did, once they are shut.
    pub(super) shut: OnceCell<ShutDomains>,
}

impl Stopping<'_> {
    /// Writes the calling hart's part, with what others have asked of it.
    pub(super) fn save(&self, sequence: u64) -> Result<(), CutReason> {
        self.own.take_requests();
        let part = Layout::hart(self.place);
        let bytes = match self.frame {
            // SAFETY: only this hart writes its part, and others read it later.
            Some(frame) => context::write(self.own, frame, unsafe { self.record.part_mut(part) })?,
            None => 0,
        };
        self.record.enter(part, sequence, bytes)
    }

    /// The same, as the last that the calling hart stores: its caches are written back then.
    pub(super) fn save_last(&self, sequence: u64) -> Result<(), CutReason> {
        self.save(sequence)?;
        self.write_back()
    }

    /// Writes back what caches the calling hart has to itself.
    fn write_back(&self) -> Result<(), CutReason> {
        are_written_back(self.own, line().write_back_own())
    }
}

/// What comes of writing caches back on a hart, which is done or cannot be.
pub(super) fn are_written_back(own: ThisHart, is_done: bool) -> Result<(), CutReason> {
    is_done.then_some(()).ok_or(CutReason::CachesLeft(own.id()))
}

/// Writes the parts of what all harts share and of the memory that the loader writes at a
/// power-on, the device tree. `vector` is where the OS goes on that has asked for a sleep,
/// `shut` what its APLICs did before they were shut. Returns their numbers and bytes.
///
/// # Errors
///
/// [`CutReason::NoRoom`], [`CutReason::DeviceState`].
///
/// # Safety
///
/// No hart runs the OS, and nobody else uses these parts.
pub(super) unsafe fn write_shared(
    record: &Record,
    own: ThisHart,
    vector: Option<Resume>,
    shut: Option<&ShutDomains>,
) -> Result<[(usize, u64); 2], CutReason> {
    let [shared, tree] = [Layout::SHARED, Layout::TREE];
    // SAFETY: as the caller says.
    let mut writer = StateWriter::new(unsafe { record.part_mut(shared) });
    let saving = Saving {
        store: Store::Record,
        vector,
        shut,
    };
    MACHINE.save(&saving, &mut writer)?;
    // SAFETY: likewise.
    let (memory, room) = unsafe { (shared::loaded_memory(own), record.part_mut(tree)) };
    let bytes = memory.len() as u64;
    let room = room.as_mut_bytes().get_mut(..memory.len());
    room.ok_or(CutReason::NoRoom(bytes))?
        .copy_from_slice(memory);
    Ok([(shared, writer.finish()), (tree, bytes)])
}

impl StopMachine for Stopping<'_> {
    fn record(&self) -> &impl CutMemory {
        &self.record
    }

    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        self.record.with_proof(job)
    }

    fn forget(&self) {
        key::forget();
    }

    fn halt(&self, _: u64) -> Result<(), CutReason> {
        let limit = line().hold_up_ticks() / 2;
        while let Some(hart) = self.running() {
            self.own.serve_fence();
            if self.ticks() > limit {
                return Err(CutReason::HartNotStopped(hart));
            }
        }
        Ok(())
    }

    fn shut(&self) -> Result<(), CutReason> {
        let (controllers, time) = (platform().interrupts.shared(), &platform().time);
        _ = self.shut.set(controllers.shut());
        // A message on its way is a store of a few ns.
        let until = time.ticks() + line().hold_up_ticks() / 16;
        while controllers.are_sending() {
            if time.ticks() > until {
                return Err(CutReason::MessageLeft);
            }
        }
        Ok(())
    }

    fn gather(&self, sequence: u64) -> Result<(), CutReason> {
        SEQUENCE.store(sequence, Ordering::Release);
        self.save(sequence)?;
        let others = hart::all().len() - 1;
        // Devices had most of it.
        let limit = line().hold_up_ticks();
        while GATHERED.load(Ordering::Acquire) < others {
            if let Some(reason) = REFUSED.get() {
                return Err(*reason);
            }
            if self.ticks() > limit {
                return Err(self.missing(sequence));
            }
        }
        Ok(())
    }

    fn capture(&self, sequence: u64) -> Result<(), CutReason> {
        self.capture_for(sequence, None)
    }

    fn quiet(&self, sequence: u64) -> Result<(), CutReason> {
        let until = power_fail::since() + line().quiet_ticks();
        // Where a sleep was given up, the OS has suspended them.
        let drivers = match sealed::is_refused() {
            true => Drivers::Suspended,
            false => Drivers::Running,
        };
        let (bytes, quieted) = self.quiet_until(drivers, until)?;
        quieted?;
        self.record.enter(Layout::DEVICES, sequence, bytes)
    }

    fn ticks(&self) -> u64 {
        let now = platform().time.ticks();
        now.saturating_sub(power_fail::since())
    }

    fn has_memory_error(&self) -> bool {
        line().controller().has_error()
    }

    fn wear(&self) -> WearWords {
        line().controller().wear()
    }

    fn flush(&self) -> Result<(), CutReason> {
        // The other harts have written their own back.
        are_written_back(self.own, line().write_back_rest())
    }
}

impl Stopping<'_> {
    /// Writes the parts of what harts share, and the device tree's. `vector` is where the OS
    /// goes on that has asked for a sleep.
    pub(super) fn capture_for(
        &self,
        sequence: u64,
        vector: Option<Resume>,
    ) -> Result<(), CutReason> {
        // SAFETY: no hart runs the OS, and the coordinator alone writes them.
        let written = unsafe { write_shared(&self.record, self.own, vector, self.shut.get()) }?;
        for (part, bytes) in written {
            self.record.enter(part, sequence, bytes)?;
        }
        Ok(())
    }

    /// Quiets devices by that time, in ticks. Returns the bytes of what puts back those that
    /// it has touched, and whether all are quiet.
    ///
    /// # Errors
    ///
    /// One cannot be kept, and none was touched.
    pub(super) fn quiet_until(
        &self,
        drivers: Drivers,
        until: u64,
    ) -> Result<(u64, Result<(), CutReason>), CutReason> {
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
        // SAFETY: the coordinator alone writes it.
        let part = unsafe { self.record.part_mut(Layout::DEVICES) };
        Ok(devices.stop(drivers, until, part))
    }

    /// A hart that has not stopped, but for the first.
    fn running(&self) -> Option<u64> {
        let halted = HALTED.load(Ordering::Acquire);
        let mut harts = hart::all().iter().enumerate();
        let running = harts.find(|(place, hart)| !self.own.is(hart) && halted >> place & 1 == 0);
        running.map(|(_, hart)| hart.id())
    }

    /// A hart that has not written its part.
    pub(super) fn missing(&self, sequence: u64) -> CutReason {
        let mut harts = hart::all().iter().enumerate();
        let missing = harts.find(|(place, _)| {
            let entry = self
                .record
                .line(Place::Part(Layout::hart(*place)))
                .read_part();
            entry.is_none_or(|(of, _)| of != sequence)
        });
        CutReason::HartNotStopped(missing.map_or(0, |(_, hart)| hart.id()))
    }
}
