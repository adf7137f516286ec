use core::fmt;

use arrayvec::ArrayVec;

use poorwill_image::{Progress, StateSections, StateWriter, Workers};
use poorwill_medium::nvme::Stop;
use poorwill_memory::linux::{Free, FreeListError};
use poorwill_memory::{EntryPoint, MachineIdentity, OsMemory, PageMap};
use poorwill_store::{Failure, RecordFormat};

use crate::core_state::Moment;
use crate::cut::{CutCommitted, NoCut};
use crate::device::{Device, MAX_DEVICES};
use crate::error::{AreaError, ColdBoot, NotKept, Obstacle, StateRefusal};
use crate::event::{Event, RamWake, WakeReport};
use crate::in_use::LeftInUse;
use crate::retain::{Sleeper, Source};
use crate::vault_state::VaultState;
use crate::warm_reset::{BootAttempt, LoadMark};

/// A machine that sleeps and wakes: the firmware on its hardware, or a fake. It has the parts in
/// the supertraits once. Each OS has a domain.
///
/// One hart calls the methods, while the harts of the domains that sleep or wake are stopped. Times
/// are ticks of the machine's counter, unless a unit is named.
pub trait Machine: Clock + Console + Devices + HasVault + Power + WarmReset {
    /// The type of an OS's domain.
    type Domain: Domain;

    /// Its own state from an image, checked but not restored.
    type State<'a>;

    /// What it keeps: an image of its only domain, or a set of its domains' images.
    fn format(&self) -> RecordFormat;

    /// The harts that can share the work: stopped ones of domains that do not run.
    fn workers(&self) -> &dyn Workers;

    /// Captures the state that no domain has.
    ///
    /// # Errors
    ///
    /// [`NotKept`].
    fn capture(&self, into: &mut StateWriter<'_>) -> Result<(), NotKept>;

    /// Takes its own sections out of an image's state and checks them. Restores nothing.
    ///
    /// # Errors
    ///
    /// [`StateRefusal`].
    fn check<'a>(&self, sections: &mut StateSections<'a>) -> Result<Self::State<'a>, StateRefusal>;

    /// Restores its own state.
    fn restore(&self, state: Self::State<'_>);

    /// Lets the counter go on from the moment of the sleep, once for each wake, and before any
    /// domain runs. [`Clock::ticks`] of this wake is not affected.
    fn continue_time(&self, resume: &<Self::Domain as Domain>::Resume);

    /// Lets a domain of a set go on, while later ones still sleep: nothing may reach its memory
    /// from here on, and no hart of it works for others.
    fn release(&self, domain: &Self::Domain, outcome: Outcome<<Self::Domain as Domain>::Resume>);
}

/// What becomes of a domain at the wake of its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// It wakes: its waking hart must restore its own state.
    Wakes(R),
    /// It has no image, or one that is refused: its next stage must be started.
    Cold(ColdBoot),
    /// Its memory is partially restored, so it does not run until the next power-on.
    Ended(Failure),
}

/// The machine's clocks.
pub trait Clock {
    /// The current time.
    fn ticks(&self) -> u64;

    /// Converts nanoseconds to ticks.
    fn ticks_in(&self, nanoseconds: u64) -> u64;

    /// Converts ticks to milliseconds.
    fn milliseconds_in(&self, ticks: u64) -> u64;

    /// Nanoseconds since the Unix epoch; `None` on a machine without a clock that
    /// runs while the power is off.
    fn now_ns(&self) -> Option<u64>;

    /// Milliseconds since `began`, in ticks; 0 if that lies in the future.
    fn milliseconds_since(&self, began: u64) -> u64 {
        self.milliseconds_in(self.ticks().saturating_sub(began))
    }
}

/// The console, for output and a key.
pub trait Console {
    /// Writes an event's line to the console.
    fn say(&self, event: &Event<'_>);

    /// Shows the progress of a job.
    fn show(&self, job: Job, progress: Progress);

    /// Ends the display of progress.
    fn end_show(&self);

    /// Waits for a key, and consumes it. Returns whether there was one.
    fn key_within(&self, milliseconds: u32) -> bool;
}

/// The devices that may hold sleep areas, and those that may prevent a save.
pub trait Devices {
    /// The location of a device, and its name on the console.
    type Place: fmt::Display + fmt::Debug;

    /// A running device.
    type Device<'d>: Device;

    /// The devices that may hold sleep areas. The console reports why a device cannot be found.
    fn devices(&self) -> ArrayVec<Self::Place, MAX_DEVICES>;

    /// Starts a device, runs `job` on it, and restores its previous state. `stop` chooses how a
    /// controller is stopped.
    ///
    /// # Errors
    ///
    /// The job's error, or that of a device that does not start.
    fn on_device<R>(
        &self,
        place: &Self::Place,
        stop: impl Fn(&Result<R, AreaError>) -> Stop,
        job: impl FnOnce(&mut Self::Device<'_>) -> Result<R, AreaError>,
    ) -> Result<R, AreaError>;

    /// The reason why the machine cannot be saved, if there is one.
    fn obstacle(&self) -> Option<Obstacle>;

    /// The functions that the suspended OS has left in use, and that a power-off disturbs. Called
    /// before a device is started, since that changes the bus.
    fn left_in_use(&self) -> LeftInUse {
        LeftInUse::default()
    }
}

/// The vault, and randomness for keys.
pub trait HasVault {
    /// The lent vault. Its drop gives the vault back.
    type Vault<'v>: LentVault
    where
        Self: 'v;

    /// Lends the vault, to one user at a time.
    fn vault(&self) -> Self::Vault<'_>;

    /// Random bytes for a new key.
    fn new_key(&self) -> [u8; 32];

    /// Bytes that distinguish uses of a key.
    fn new_salt(&self) -> [u8; 8];
}

/// A lent vault.
pub trait LentVault {
    /// The vault, its absence, or its fault.
    fn state(&mut self) -> VaultState<'_>;
}

/// A vault that may not be used counts as absent.
impl<V: LentVault> LentVault for Option<V> {
    fn state(&mut self) -> VaultState<'_> {
        self.as_mut().map_or(VaultState::Absent, LentVault::state)
    }
}

/// The power, and the state in which a machine retains.
pub trait Power {
    /// Returns whether the machine can switch its power off.
    fn can_power_off(&self) -> bool;

    /// Waits until the power is good, if the machine can know that. The work that begins after this
    /// should not be interrupted.
    fn wait_for_power(&self) {}

    /// Runs `job`, which loads a consumed image. If the power is lost during it, the next start
    /// reports that if it can, and boots cold.
    fn while_loading<R>(&self, job: impl FnOnce() -> R) -> R {
        job()
    }

    /// Runs `job` to its end, even if the power fails: its waits keep their usual limits.
    fn to_the_end<R>(&self, job: impl FnOnce() -> R) -> R {
        job()
    }

    /// Returns whether the machine can be cut: its RAM is persistent, and it can switch its power
    /// off.
    fn can_be_cut(&self) -> bool;

    /// Cuts the machine. Its OS continues at `vector` after the next power-on; see
    /// [`request`](crate::cut::request). `began`: start of the sleep in ticks.
    ///
    /// # Errors
    ///
    /// [`NoCut`]: nothing has changed.
    fn cut(&self, vector: EntryPoint, began: u64) -> Result<CutCommitted, NoCut>;

    /// Returns whether the machine can only retain: all its disks are its domains', and no image of
    /// it is made or woken.
    fn only_retains(&self) -> bool {
        false
    }

    /// Takes the facts of a wake from powered RAM, which the console and each OS are told before
    /// that OS continues.
    fn woke_from_ram(&self, wake: &RamWake);

    /// Runs `job` with the hart that waits for a wake event. After it the hart has the OS's state
    /// again, with the interrupts that came during the job.
    fn with_sleeper<R>(&self, job: impl FnOnce(&mut dyn Sleeper) -> R) -> R;

    /// The wake event for a machine that has retained and is now being saved, if there is one. It
    /// would have woken the retaining machine.
    fn abandon(&self, at: Checkpoint) -> Option<Source> {
        let _ = at;
        self.with_sleeper(|sleeper| sleeper.look().wake)
    }
}

/// Notes of one start for the next, if the power stays on between them.
pub trait WarmReset {
    /// Returns whether OS memory holds only zeros and the files that were loaded for this start.
    fn memory_is_clear(&self) -> bool;

    /// The snapshot's wake that was on trial at the reset, if it is known.
    fn last_attempt(&self) -> Option<BootAttempt>;

    /// Notes that a snapshot wakes, in case of a reset.
    fn begin_attempt(&self, attempt: BootAttempt);

    /// The load mark that the last start left.
    fn last_load_mark(&self) -> LoadMark;

    /// Sets the load mark for the next start. The mark is in memory after all earlier accesses to
    /// OS memory, and before all later ones.
    fn set_load_mark(&self, mark: LoadMark);
}

/// The memory, harts and devices of an OS.
pub trait Domain {
    /// Its state from an image, checked but not restored.
    type State<'a>;

    /// The waking hart's own state, which that hart restores after memory and devices.
    type Resume;

    /// Its name; empty on a machine without domains.
    fn name(&self) -> &str;

    /// The identity that an image must match.
    fn identity(&self) -> MachineIdentity;

    /// Adds the OS's free pages to `free`, which is empty.
    ///
    /// # Errors
    ///
    /// [`FreeListError`]: `free` is empty.
    fn free_pages(&self, memory: &OsMemory, free: &mut PageMap<'_>) -> Result<Free, FreeListError>;

    /// Captures the state of its sleeping hart and of its devices at this moment, for a wake at
    /// `vector`.
    ///
    /// # Errors
    ///
    /// [`NotKept`].
    fn capture(
        &self,
        vector: EntryPoint,
        at: Moment,
        into: &mut StateWriter<'_>,
    ) -> Result<(), NotKept>;

    /// Takes the domain's sections out of an image's state and checks them. Restores nothing.
    ///
    /// # Errors
    ///
    /// [`StateRefusal`].
    fn check<'a>(&self, sections: &mut StateSections<'a>) -> Result<Self::State<'a>, StateRefusal>;

    /// Restores everything except the state that only the waking hart can restore, and reports
    /// `wake` to the OS. OS memory is loaded already.
    fn restore(&self, state: Self::State<'_>, wake: &WakeReport) -> Self::Resume;
}

/// The [`Resume`](Domain::Resume) of a machine's domain.
pub(crate) type Resume<M> = <<M as Machine>::Domain as Domain>::Resume;

/// The [`State`](Domain::State) of a machine's domain, and the machine's in the first image of a
/// sleep.
pub(crate) type State<'a, M> = (
    <<M as Machine>::Domain as Domain>::State<'a>,
    Option<<M as Machine>::State<'a>>,
);

/// The points at which a staged sleep checks for wake events. Long steps lie between them: the
/// start of a device, and the save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// The device runs, and no byte was written.
    BeforeSaving,
    /// The image is durable, but not committed.
    BeforeCommit,
}

/// A job with a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Memory is being saved.
    Sleeping,
    /// Memory is being loaded.
    Waking,
}
