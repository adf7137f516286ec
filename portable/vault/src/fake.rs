//! A vault in memory, for tests.

extern crate std;

use std::rc::Rc;

use crate::{CutCounter, Key, KeyState, KeyVault, RollbackCounter, VaultError};

/// Holds the key and the counts like a vault, but only in memory.
#[derive(Clone, Debug, Default)]
pub struct FakeCounter {
    generation: u64,
    armed: Option<u64>,
    kept: Option<u64>,
    cut: u64,
    is_reserved: bool,
    fail_next: Option<VaultError>,
    key: Option<Rc<Key>>,
}

impl FakeCounter {
    /// The counter of a machine that slept `generation` times and has no image.
    #[must_use]
    pub fn new(generation: u64) -> Self {
        FakeCounter {
            generation,
            ..FakeCounter::default()
        }
    }

    /// The same counter with a key.
    #[must_use]
    pub fn with_key(self, key: Key) -> Self {
        FakeCounter {
            key: Some(Rc::new(key)),
            ..self
        }
    }

    /// Makes the next write fail without a change.
    pub fn fail_next(&mut self, error: VaultError) {
        self.fail_next = Some(error);
    }

    fn write(&mut self) -> Result<(), VaultError> {
        self.fail_next.take().map_or(Ok(()), Err)
    }
}

impl RollbackCounter for FakeCounter {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn armed(&self) -> Option<u64> {
        self.armed
    }

    fn kept(&self) -> Option<u64> {
        self.kept
    }

    fn reserve(&mut self, above: u64) -> Result<u64, VaultError> {
        let generation = self
            .generation
            .max(above)
            .checked_add(1)
            .ok_or(VaultError::Exhausted)?;
        self.write()?;
        self.generation = generation;
        self.armed = None;
        self.is_reserved = true;
        Ok(generation)
    }

    fn arm(&mut self, generation: u64) -> Result<(), VaultError> {
        if self.armed == Some(generation) {
            return Ok(());
        }
        if !self.is_reserved || generation != self.generation {
            return Err(VaultError::NotReserved {
                generation,
                latest: self.generation,
            });
        }
        self.write()?;
        self.is_reserved = false;
        self.armed = Some(generation);
        Ok(())
    }

    fn disarm(&mut self) -> Result<(), VaultError> {
        if self.armed.is_some() {
            self.write()?;
            self.armed = None;
        }
        Ok(())
    }

    fn keep(&mut self, generation: Option<u64>) -> Result<(), VaultError> {
        if self.kept == generation {
            return Ok(());
        }
        if let Some(generation) = generation
            && (!self.is_reserved || generation != self.generation)
        {
            return Err(VaultError::NotReserved {
                generation,
                latest: self.generation,
            });
        }
        self.write()?;
        self.kept = generation;
        Ok(())
    }
}

impl CutCounter for FakeCounter {
    fn cut(&self) -> u64 {
        self.cut
    }

    fn make_room(&mut self) -> Result<(), VaultError> {
        self.write()
    }

    fn next_cut(&mut self) -> Result<u64, VaultError> {
        self.write()?;
        self.cut += 1;
        Ok(self.cut)
    }
}

impl KeyVault for FakeCounter {
    fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }

    fn key_state(&self) -> KeyState {
        match self.key {
            Some(_) => KeyState::Present,
            None => KeyState::Missing,
        }
    }

    fn install_key(&mut self, key: Key) -> Result<(), VaultError> {
        if self.key.is_some() {
            return Err(VaultError::KeyPresent);
        }
        self.write()?;
        self.key = Some(Rc::new(key));
        Ok(())
    }
}
