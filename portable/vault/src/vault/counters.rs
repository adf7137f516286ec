//! The vault's counters.

use embedded_storage_async::nor_flash::MultiwriteNorFlash;

use super::Vault;
use crate::items::{Count, Stage};
use crate::{CutCounter, RollbackCounter, VaultError};

impl<F: MultiwriteNorFlash> RollbackCounter for Vault<F> {
    fn generation(&self) -> u64 {
        self.state.numbers.count.generation
    }

    fn armed(&self) -> Option<u64> {
        let count = self.state.numbers.count;
        count.is_armed().then_some(count.generation)
    }

    fn kept(&self) -> Option<u64> {
        Some(self.state.numbers.kept).filter(|kept| *kept != 0)
    }

    fn reserve(&mut self, above: u64) -> Result<u64, VaultError> {
        let generation = self
            .generation()
            .max(above)
            .checked_add(1)
            .ok_or(VaultError::Exhausted)?;
        let result = self.put_count(Count {
            generation,
            stage: Stage::Reserved,
        });
        if result.is_err() {
            // The number may be in the flash, so it must not be used again.
            self.state.numbers.count = Count {
                generation,
                stage: Stage::Spent,
            };
        }
        result.map(|()| generation)
    }

    fn arm(&mut self, generation: u64) -> Result<(), VaultError> {
        let count = self.state.numbers.count;
        if generation != count.generation || count.stage == Stage::Spent {
            return Err(VaultError::NotReserved {
                generation,
                latest: count.generation,
            });
        }
        if count.is_armed() && !self.is_in_doubt {
            return Ok(());
        }
        self.put_count(Count {
            generation,
            stage: Stage::Armed,
        })
    }

    fn disarm(&mut self) -> Result<(), VaultError> {
        if !self.state.numbers.count.is_armed() && !self.is_in_doubt {
            return Ok(());
        }
        self.put_count(self.disarmed())
    }

    fn keep(&mut self, generation: Option<u64>) -> Result<(), VaultError> {
        let kept = generation.unwrap_or(0);
        if kept == self.state.numbers.kept && !self.is_in_doubt {
            return Ok(());
        }
        let count = self.state.numbers.count;
        let is_reserved = kept == count.generation && count.stage == Stage::Reserved;
        if kept != 0 && kept != self.state.numbers.kept && !is_reserved {
            return Err(VaultError::NotReserved {
                generation: kept,
                latest: count.generation,
            });
        }
        self.put_kept(kept)
    }
}

impl<F: MultiwriteNorFlash> CutCounter for Vault<F> {
    fn cut(&self) -> u64 {
        self.state.numbers.cut
    }

    fn make_room(&mut self) -> Result<(), VaultError> {
        if self.has_room() {
            return Ok(());
        }
        self.move_on(None, self.state.numbers)
    }

    fn next_cut(&mut self) -> Result<u64, VaultError> {
        let cut = self.cut().checked_add(1).ok_or(VaultError::Exhausted)?;
        self.put_cut(cut)?;
        Ok(cut)
    }
}
