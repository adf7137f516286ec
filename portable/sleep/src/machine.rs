use core::fmt;

use arrayvec::ArrayVec;

use poorwill_image::{Progress, StateSections, StateWriter, Workers};
use poorwill_medium::nvme::Stop;
use poorwill_memory::linux::{Free, FreeListError};
use poorwill_memory::{MachineIdentity, OsMemory, PageMap};

use crate::cut::{CutCommitted, NoCut};
use crate::device::{Device, MAX_DEVICES};
use crate::error::{AreaError, NotKept, Obstacle, StateRefusal};
use crate::event::{Event, WakeReport};
use crate::retain::{Sleeper, Source};
use crate::vault_state::VaultState;
use crate::warm_reset::{BootAttempt, LoadMark};

/// A machine that sleeps and wakes: the firmware on its hardware, or a fake. It has the
/// supertraits' parts once. Each OS has a domain.
///
/// One hart calls it, and the OS's others are stopped. Times are ticks of the
/// machine's own counter, unless a unit is named.
pub trait Machine: Clock + Console + Devices + HasVault + Power + WarmReset {
    /// What an OS runs in.
    type Domain: Domain;

    /// The domain that sleeps and wakes.
    fn domain(&self) -> &Self::Domain;
}

/// Time.
pub trait Clock {
    /// The time now.
    fn ticks(&self) -> u64;

    /// Ticks in this time.
    fn ticks_in(&self, nanoseconds: u64) -> u64;

    /// Milliseconds in this time.
    fn milliseconds_in(&self, ticks: u64) -> u64;

    /// Nanoseconds since the Unix epoch; `None` on a machine without a clock that
    /// runs while the power is off.
    fn now_ns(&self) -> Option<u64>;

    /// Milliseconds since `began`, in ticks; 0 where that is still to come.
    fn milliseconds_since(&self, began: u64) -> u64 {
        self.milliseconds_in(self.ticks().saturating_sub(began))
    }
}

/// What people see, and may press.
pub trait Console {
    /// Writes an event's line to the console.
    fn say(&self, event: &Event<'_>);

    /// Shows how far a job has come.
    fn show(&self, job: Job, progress: Progress);

    /// The job that was shown is over.
    fn end_show(&self);

    /// Waits for a key, and takes it.
    fn key_within(&self, milliseconds: u32) -> bool;
}

/// The devices that may hold sleep areas, and others that may be in the way.
pub trait Devices {
    /// Where a device is; how it is called on the console.
    type Place: fmt::Display + fmt::Debug;

    /// A device that runs.
    type Device<'d>: Device;

    /// The devices that may hold sleep areas. What keeps one from being found is
    /// said on the console.
    fn devices(&self) -> ArrayVec<Self::Place, MAX_DEVICES>;

    /// Starts a device, runs `job` on it, and leaves it as it was found; a controller
    /// as `stop` says.
    ///
    /// # Errors
    ///
    /// The job's, or that the device does not start.
    fn on_device<R>(
        &self,
        place: &Self::Place,
        stop: impl Fn(&Result<R, AreaError>) -> Stop,
        job: impl FnOnce(&mut Self::Device<'_>) -> Result<R, AreaError>,
    ) -> Result<R, AreaError>;

    /// What keeps the machine from being saved, if anything does.
    fn obstacle(&self) -> Option<Obstacle>;
}

/// The vault, and randomness for keys.
pub trait HasVault {
    /// Gives the vault back as it is dropped.
    type Vault<'v>: LentVault
    where
        Self: 'v;

    /// Lends the vault, to one user at a time.
    fn vault(&self) -> Self::Vault<'_>;

    /// Random bytes for a new key.
    fn new_key(&self) -> [u8; 32];

    /// Bytes that make each use of a key differ.
    fn new_salt(&self) -> [u8; 8];
}

/// The vault while it is lent.
pub trait LentVault {
    /// What the machine has for a vault.
    fn state(&mut self) -> VaultState<'_>;
}

/// The power, and what rests while it is on.
pub trait Power {
    /// Whether the machine can switch its power off.
    fn can_power_off(&self) -> bool;

    /// Waits until the power is good, on a machine that knows: what begins now is to be ended.
    fn wait_for_power(&self) {}

    /// Runs `job`, which loads an image that is consumed. If the power goes during it, the next
    /// start says so where it can, and boots cold.
    fn while_loading<R>(&self, job: impl FnOnce() -> R) -> R {
        job()
    }

    /// Runs `job`, which is not cut short if the power fails: its waits keep their usual length.
    fn to_the_end<R>(&self, job: impl FnOnce() -> R) -> R {
        job()
    }

    /// Whether the machine can be cut: its RAM is persistent, and it can switch its power off.
    fn can_be_cut(&self) -> bool;

    /// Has the machine cut, to go on at `vector` at the next power-on; see
    /// [`request`](crate::cut::request). The sleep began at `began`, in ticks.
    ///
    /// # Errors
    ///
    /// [`NoCut`]: everything is as it was.
    fn cut(&self, vector: WakeVector, began: u64) -> Result<CutCommitted, NoCut>;

    /// Runs `job` with the hart that rests for the machine. After it the hart is as the
    /// OS left it, with the interrupts that have come since.
    fn with_sleeper<R>(&self, job: impl FnOnce(&mut dyn Sleeper) -> R) -> R;

    /// The reason to wake a machine that has rested and is now being saved, if there is one:
    /// it would have woken the machine at rest.
    fn abandon(&self, at: Checkpoint) -> Option<Source> {
        let _ = at;
        self.with_sleeper(|sleeper| sleeper.look().wake)
    }
}

/// What one start leaves for the next, if the power stays on between them.
pub trait WarmReset {
    /// OS memory holds only zeros and the files that were loaded for this start.
    fn memory_is_clear(&self) -> bool;

    /// The snapshot's wake that ran when the machine was reset, if that is known.
    fn last_attempt(&self) -> Option<BootAttempt>;

    /// Leaves word, for the case of a reset, that a snapshot wakes.
    fn begin_attempt(&self, attempt: BootAttempt);

    /// The load mark, as the last start left it.
    fn last_load_mark(&self) -> LoadMark;

    /// Sets the load mark for the next start. It is in memory before any access to OS
    /// memory that follows, and after all that came before.
    fn set_load_mark(&self, mark: LoadMark);
}

/// What an OS runs in: memory, harts, and its part of the devices.
pub trait Domain {
    /// Its state, read from an image and found to fit, not yet put back.
    type State<'a>;

    /// The waking hart's own part, for when memory and devices are as they were.
    type Resume;

    /// What an image must match.
    fn identity(&self) -> MachineIdentity;

    /// The harts that can share the work.
    fn workers(&self) -> &dyn Workers;

    /// Puts the pages that the OS has free into `free`, which is empty.
    ///
    /// # Errors
    ///
    /// [`FreeListError`]: then `free` is empty.
    fn free_pages(&self, memory: &OsMemory, free: &mut PageMap<'_>) -> Result<Free, FreeListError>;

    /// Writes down the state of the calling hart and of the devices, for a wake at
    /// `vector`.
    ///
    /// # Errors
    ///
    /// [`NotKept`].
    fn capture(&self, vector: WakeVector, into: &mut StateWriter<'_>) -> Result<(), NotKept>;

    /// Takes its sections out of an image's state and checks them; nothing is put
    /// back yet.
    ///
    /// # Errors
    ///
    /// [`StateRefusal`].
    fn check<'a>(&self, sections: &mut StateSections<'a>) -> Result<Self::State<'a>, StateRefusal>;

    /// Puts back all but what only the waking hart can, and tells the OS of `wake`.
    /// Its memory is loaded.
    fn restore(&self, state: Self::State<'_>, wake: &WakeReport) -> Self::Resume;

    /// Tells the OS that it wakes from RAM.
    fn tell_os(&self, source: Source, slept_ms: u64);
}

/// The [`Resume`](Domain::Resume) of a machine's domain.
pub(crate) type Resume<M> = <<M as Machine>::Domain as Domain>::Resume;

/// The [`State`](Domain::State) of a machine's domain.
pub(crate) type State<'a, M> = <<M as Machine>::Domain as Domain>::State<'a>;

/// Where the OS goes on, and its second argument register there (SBI 3.0, table 14.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeVector {
    /// Physical address of its first instruction.
    pub address: u64,
    /// The argument that it gave.
    pub argument: u64,
}

/// The places at which a sleep that may be abandoned looks whether it is to be.
/// What takes long lies between them: starting a device, saving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// The device runs, and nothing was written.
    BeforeSaving,
    /// The image is durable, and nothing is committed.
    BeforeCommit,
}

/// What progress is shown of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Memory is being saved.
    Sleeping,
    /// Memory is being loaded.
    Waking,
}
