//! What the model says of each run: what must never happen.

use crate::bench::{Fault, Image};
use crate::explore::{Explorer, PowerOn};
use crate::machine::NOISE;
use crate::snapshots::snapshot_in;
use crate::state::{Candidate, State};

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An image was loaded that had been loaded before.
    LoadedTwice,
    /// An image was loaded though the OS had gone on since.
    LoadedLate,
    /// The machine woke with another memory or state than it slept with.
    WrongMemory,
    /// The domains of a machine woke from different sleeps.
    Mixed,
    /// A committed image did not wake, though nothing went wrong.
    Lost,
    /// Memory was changed, and the machine boots cold.
    MemoryTouched,
    /// A cold boot could not give up the images, though nothing went wrong.
    NotGivenUp,
    /// A sleep failed, though nothing went wrong.
    NoSleep,
    /// The OS goes on after a sleep that failed, with another memory.
    OsMemoryChanged,
    /// Two images were sealed under one generation.
    GenerationReused,
    /// A snapshot was loaded that had been deleted, or replaced.
    SnapshotLate,
    /// A slot was read whose record commits no image.
    ReadUncommitted,
}

impl Explorer {
    pub(crate) fn check_bench(&self, readable: [bool; 2]) -> Result<(), Violation> {
        let bench = self.shared.get();
        if bench.reused.is_some() {
            return Err(Violation::GenerationReused);
        }
        let read = bench.read_slots.into_iter().zip(readable);
        if read.into_iter().any(|(read, readable)| read && !readable) {
            return Err(Violation::ReadUncommitted);
        }
        Ok(())
    }

    /// Only the candidate may be loaded.
    pub(crate) fn check_loading(&self, state: &State) -> Result<(), Violation> {
        if let Some(sleep) = self.loaded_snapshot(state) {
            return if Self::may_wake(state, sleep) {
                Ok(())
            } else {
                Err(Violation::SnapshotLate)
            };
        }
        if self.shared.get().loading.is_none() || state.candidate.is_some() {
            return Ok(());
        }
        let read = self.shared.get().read_slots;
        let again = |image: &Image| read[image.slot] && state.loaded.contains(&image.sleep);
        Err(if state.images.iter().any(|image| again(image)) {
            Violation::LoadedTwice
        } else {
            Violation::LoadedLate
        })
    }

    /// The sleep of the snapshot that was loaded, if one was.
    pub(crate) fn loaded_snapshot(&self, state: &State) -> Option<u64> {
        let slot = self.shared.get().loading?;
        let sectors = self.shared.get().sectors.clone();
        // Behind the load its record may have been given up.
        snapshot_in(&self.shared, state, &sectors, slot)
            .or_else(|| snapshot_in(&self.shared, state, &state.sectors, slot))
    }

    pub(crate) fn check_wake(
        &self,
        state: &State,
        sleep: u64,
        fault: Option<Fault>,
    ) -> Result<(), Violation> {
        let candidate = state.candidate.map(|candidate| candidate.sleep);
        if candidate == Some(sleep) && self.machine.woke_with(sleep) {
            // Where nothing goes wrong, all domains wake.
            return match fault.is_some() || self.machine.all_woke() {
                true => Ok(()),
                false => Err(Violation::Lost),
            };
        }
        if Self::may_wake(state, sleep) && self.machine.woke_with(sleep) {
            // The image of a later sleep goes first.
            return match state.candidate {
                Some(Candidate { certain: true, .. }) if fault.is_none() => Err(Violation::Lost),
                _ => Ok(()),
            };
        }
        let whole = (1..=state.sleeps).find(|other| self.machine.memory_is(*other));
        Err(match whole {
            Some(other) if other == sleep && state.loaded.contains(&other) => {
                Violation::LoadedTwice
            }
            Some(other) if other == sleep => Violation::LoadedLate,
            _ => Violation::WrongMemory,
        })
    }

    pub(crate) fn check_cold_boot(
        &mut self,
        state: &State,
        what: PowerOn,
        fault: Option<Fault>,
        gave_up: bool,
    ) -> Result<(), Violation> {
        let must_wake = match state.candidate {
            Some(candidate) => candidate.certain,
            None => self.snapshot_must_wake(state),
        };
        if self.shared.get().loading.is_some() || !self.machine.memory_is(NOISE) {
            Err(Violation::MemoryTouched)
        } else if fault.is_none() && what == PowerOn::Wake && must_wake {
            Err(Violation::Lost)
        } else if fault.is_none() && !gave_up {
            Err(Violation::NotGivenUp)
        } else {
            Ok(())
        }
    }
}
