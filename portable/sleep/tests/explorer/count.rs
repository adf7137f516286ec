//! The machine's count of sleeps, with the vault's own rules: each step happens
//! whole or not at all, and after one that failed nobody knows which.
//! The vault's own tests show that flash can keep it so.

use poorwill_vault::{Key, KeyState, KeyVault, RollbackCounter, VaultError};

use crate::Flaw;
use crate::bench::{Device, Effect, Kind, Shared, flash_error};

/// Where the latest sleep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Reserved,
    Armed,
    Spent,
}

/// What the count says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    pub(crate) generation: u64,
    pub(crate) stage: Stage,
    /// The machine's snapshot.
    pub(crate) snapshot: Option<u64>,
}

/// The count: what is in flash, and what the firmware takes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) kept: Value,
    pub(crate) known: Value,
    pub(crate) in_doubt: bool,
}

impl Count {
    /// A machine that never slept.
    pub(crate) const NEW: Count = Count::of(Value {
        generation: 0,
        stage: Stage::Spent,
        snapshot: None,
    });

    const fn of(kept: Value) -> Count {
        Count {
            kept,
            known: kept,
            in_doubt: false,
        }
    }

    /// What the next power-on finds.
    pub(crate) fn reopened(self) -> Count {
        Count::of(self.kept)
    }
}

/// The count on the bench, as the store sees it.
pub(crate) struct Counter(Shared, Key);

impl Counter {
    /// With the key that the machine seals with.
    pub(crate) fn new(shared: &Shared, key: Key) -> Self {
        Counter(shared.clone(), key)
    }

    fn count(&self) -> Count {
        self.0.get().count.expect("a machine with a count")
    }

    fn step(&mut self, value: Value) -> Result<(), VaultError> {
        let mut bench = self.0.get();
        let effect = bench.enter(Device::Count, Kind::Step);
        let flaw = bench.config.flaw;
        let count = bench.count.as_mut().expect("a machine with a count");
        let forgotten = flaw == Flaw::ReserveForgotten && value.stage == Stage::Reserved
            || flaw == Flaw::KeepForgotten && value.snapshot != count.kept.snapshot;
        if effect != Some(Effect::Undone) && !forgotten {
            count.kept = value;
        }
        if effect.is_none() {
            count.known = value;
        }
        count.in_doubt = effect.is_some();
        bench.change();
        effect.map_or(Ok(()), |_| Err(flash_error()))
    }
}

impl RollbackCounter for Counter {
    fn generation(&self) -> u64 {
        self.count().known.generation
    }

    fn armed(&self) -> Option<u64> {
        let known = self.count().known;
        (known.stage == Stage::Armed).then_some(known.generation)
    }

    fn kept(&self) -> Option<u64> {
        self.count().known.snapshot
    }

    fn reserve(&mut self, above: u64) -> Result<u64, VaultError> {
        let generation = self.generation().max(above) + 1;
        let early = self.0.get().config.flaw == Flaw::ArmedEarly;
        let stage = if early { Stage::Armed } else { Stage::Reserved };
        let snapshot = self.count().known.snapshot;
        let kept = self.step(Value {
            generation,
            stage,
            snapshot,
        });
        if kept.is_err() {
            let mut bench = self.0.get();
            let count = bench.count.as_mut().expect("a machine with a count");
            count.known = Value {
                generation,
                stage: Stage::Spent,
                snapshot,
            };
        }
        self.0.get().reserved = generation;
        kept.map(|()| generation)
    }

    fn arm(&mut self, generation: u64) -> Result<(), VaultError> {
        let Count {
            known, in_doubt, ..
        } = self.count();
        if generation != known.generation || known.stage == Stage::Spent {
            return Err(VaultError::NotReserved {
                generation,
                latest: known.generation,
            });
        }
        if known.stage == Stage::Armed && !in_doubt {
            return Ok(());
        }
        self.step(Value {
            stage: Stage::Armed,
            ..known
        })
    }

    fn disarm(&mut self) -> Result<(), VaultError> {
        let Count {
            known, in_doubt, ..
        } = self.count();
        if known.stage != Stage::Armed && !in_doubt {
            return Ok(());
        }
        self.step(Value {
            stage: Stage::Spent,
            ..known
        })
    }

    fn keep(&mut self, snapshot: Option<u64>) -> Result<(), VaultError> {
        let Count {
            known, in_doubt, ..
        } = self.count();
        if snapshot == known.snapshot && !in_doubt {
            return Ok(());
        }
        let reserved = (known.stage == Stage::Reserved).then_some(known.generation);
        if let Some(generation) = snapshot
            && snapshot != known.snapshot
            && snapshot != reserved
        {
            return Err(VaultError::NotReserved {
                generation,
                latest: known.generation,
            });
        }
        self.step(Value { snapshot, ..known })
    }
}

impl KeyVault for Counter {
    fn key(&self) -> Option<&Key> {
        Some(&self.1)
    }

    fn key_state(&self) -> KeyState {
        KeyState::Present
    }

    fn install_key(&mut self, _: Key) -> Result<(), VaultError> {
        Err(VaultError::KeyPresent)
    }
}
