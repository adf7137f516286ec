//! A sleep that is a cut: the hart whose OS asks for it stops the machine. All others are
//! stopped already; they write back what their caches hold, and wait on.

use core::cell::{Cell, OnceCell};
use core::sync::atomic::{AtomicUsize, Ordering};

use poorwill_arch::uninterrupted;
use poorwill_hart::Resume;
use poorwill_image::{StateWriter, Workers};
use poorwill_keepers::Drivers;
use poorwill_sleep::cut::{
    self, CutCommitted, CutMemory, CutReason, Layout, NoCut, Proof, Prover, RequestMachine,
    StopMachine, WearWords,
};
use poorwill_sleep::{VaultFault, VaultState, WakeVector};
use poorwill_vault::{CutVault, Key};
use spin::MutexGuard;

use super::devices::Devices;
use super::record::{Record, place_of, record};
use super::stop::Stopping;
use super::{WRITER, key};
use crate::entry::stack;
use crate::hart::{self, this_hart};
use crate::platform::{platform, power_fail};
use crate::sleeper;
use crate::workers::StoppedHarts;

/// How long the other harts are waited for, which are stopped, and have a cache to write back.
const PATIENCE_MS: u64 = 1000;

/// How long devices are waited for: the power is good.
const QUIET_MS: u64 = 5000;

/// Cuts the machine for the calling hart, which is on the deep stack, while all others are
/// stopped. The OS is to go on at `vector`; it has asked at `began`, in ticks.
///
/// # Errors
///
/// [`NoCut`]: all is as it was.
pub(crate) fn request(vector: WakeVector, began: u64) -> Result<CutCommitted, NoCut> {
    // The line is heeded behind a refusal; a commit is for it, too.
    uninterrupted(|| {
        // Whoever has it stops for the line, and waits for this hart.
        let writer = WRITER.try_lock().ok_or(NoCut::PowerFails)?;
        if power_fail::is_failing() {
            return Err(NoCut::PowerFails);
        }
        let committed = request_alone(vector, began)?;
        MutexGuard::leak(writer);
        Ok(committed)
    })
}

fn request_alone(vector: WakeVector, began: u64) -> Result<CutCommitted, CutReason> {
    assert!(stack::is_on_upper_deep(), "a sleep is on the deep stack");
    let own = this_hart();
    let record = record().expect("a cut is armed");
    let place = place_of(&own);
    let machine = Requesting {
        stopping: Stopping {
            record,
            own,
            place,
            frame: None,
            shut: OnceCell::new(),
        },
        vector,
        began,
        quieted: Cell::new(None),
    };
    let stack = record.stack(place);
    // SAFETY: the hart's own, and nothing of it is in use.
    unsafe { stack::on(stack.end as usize, || cut::request(&machine)) }
}

/// The machine that asks to be cut, as the hart sees it that does.
struct Requesting<'a> {
    stopping: Stopping<'a>,
    vector: WakeVector,
    /// When it asked, in ticks.
    began: u64,
    /// The bytes of what puts devices back that were quieted.
    quieted: Cell<Option<u64>>,
}

impl Requesting<'_> {
    fn record(&self) -> Record {
        self.stopping.record
    }

    /// Has each other hart enter its part, which is empty, and write its cache back: it has
    /// run the OS, which has stopped it, so nothing that interrupts it counts.
    fn gather_others(&self, sequence: u64) -> Result<(), CutReason> {
        let record = self.record();
        let gathered = AtomicUsize::new(0);
        let work = || {
            let own = this_hart();
            let stopping = Stopping {
                record,
                own,
                place: place_of(&own),
                frame: None,
                shut: OnceCell::new(),
            };
            let stack = record.stack(stopping.place);
            // SAFETY: the hart's own, and nothing of it is in use: it has not stopped.
            let saved = unsafe { stack::on(stack.end as usize, || stopping.save_last(sequence)) };
            if saved.is_ok() {
                gathered.fetch_add(1, Ordering::Release);
            }
        };
        let others = hart::all().len() - 1;
        let are_gathered = || gathered.load(Ordering::Acquire) == others;
        let time = &platform().time;
        let asked = time.ticks();
        let is_over = || {
            let waited_ms = time.milliseconds_since(asked);
            // Those that have taken notice stop for the line.
            power_fail::is_failing() || waited_ms >= PATIENCE_MS
        };
        let mut coordinate = || {
            while !are_gathered() && !is_over() {
                core::hint::spin_loop();
            }
        };
        StoppedHarts.run(&mut coordinate, &work);
        match are_gathered() {
            true => Ok(()),
            false => Err(self.stopping.missing(sequence)),
        }
    }

    /// Writes the part of the calling hart.
    fn save(&self, sequence: u64) -> Result<(), CutReason> {
        let part = Layout::hart(self.stopping.place);
        // SAFETY: only this hart writes it.
        let mut writer = StateWriter::new(unsafe { self.record().part_mut(part) });
        sleeper::capture(self.vector, &mut writer)?;
        self.record().enter(part, sequence, writer.finish())
    }
}

impl StopMachine for Requesting<'_> {
    fn record(&self) -> &impl CutMemory {
        &self.stopping.record
    }

    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason> {
        self.stopping.with_proof(job)
    }

    fn forget(&self) {
        self.stopping.forget();
    }

    fn halt(&self, sequence: u64) -> Result<(), CutReason> {
        // Before devices are quiet, which may take long: harts that notice meanwhile that the
        // power fails do no work any more.
        self.gather_others(sequence)
    }

    fn shut(&self) -> Result<(), CutReason> {
        self.stopping.shut()
    }

    fn gather(&self, sequence: u64) -> Result<(), CutReason> {
        self.save(sequence)
    }

    fn capture(&self, sequence: u64) -> Result<(), CutReason> {
        let WakeVector { address, argument } = self.vector;
        let vector = Resume { address, argument };
        self.stopping.capture_for(sequence, Some(vector))
    }

    fn quiet(&self, sequence: u64) -> Result<(), CutReason> {
        let time = &platform().time;
        let until = time.ticks() + time.ticks_in(QUIET_MS * 1_000_000);
        let (bytes, quieted) = self.stopping.quiet_until(Drivers::Suspended, until)?;
        self.quieted.set(Some(bytes));
        quieted?;
        self.record().enter(Layout::DEVICES, sequence, bytes)
    }

    fn ticks(&self) -> u64 {
        platform().time.ticks().saturating_sub(self.began)
    }

    fn flush(&self) -> Result<(), CutReason> {
        self.stopping.flush()
    }

    fn has_memory_error(&self) -> bool {
        self.stopping.has_memory_error()
    }

    fn wear(&self) -> WearWords {
        self.stopping.wear()
    }
}

impl RequestMachine for Requesting<'_> {
    fn resume(&self) {
        if let Some(shut) = self.stopping.shut.get() {
            platform().interrupts.shared().reopen(shut);
        }
        if let Some(bytes) = self.quieted.take() {
            let record = self.record();
            // SAFETY: no hart runs the OS, and this one alone uses its devices.
            let devices = unsafe { Devices::new(record) };
            devices.resume(record.part(Layout::DEVICES), bytes);
        }
    }
}

impl Prover for Requesting<'_> {
    fn with_vault<R>(&self, job: impl FnOnce(VaultState<'_, dyn CutVault + '_>) -> R) -> R {
        match stack::leaves_nothing() {
            // SAFETY: it has come from there.
            true => unsafe { stack::apart_from_above(|| key::with_vault(job)) },
            false => key::with_vault(job),
        }
    }

    fn new_key(&self) -> Key {
        key::new()
    }

    fn keep(&self, proof: Result<Proof, VaultFault>) {
        key::keep(proof);
    }
}
