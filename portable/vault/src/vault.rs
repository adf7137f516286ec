use core::ops::Range;

use embedded_storage_async::nor_flash::MultiwriteNorFlash;

use crate::half::{self, Contents, PutError, State};
use crate::items::{Count, Stage, TAG_COUNT, TAG_KEPT, TAG_KEY, VAULT_VERSION, encode_secret};
use crate::key::{Key, KeyState, Secret};
use crate::{BLOCKS, RollbackCounter, VaultError};

/// Items that a half may hold before the vault moves on to the other half. Each
/// access looks at all of them, so this bounds how long one takes; the price is
/// one erase in so many.
pub const MAX_ITEMS: u32 = 256;

/// The sealing key and the machine's count of sleeps, in NOR flash.
///
/// Two of the vault's four blocks are in use, one *half*, to which items are appended. When
/// it is full, or a key must be erased, the whole state is written into the other half, and
/// then this one is erased. A half is valid once its count is in it, and of two valid halves
/// the younger one counts, so each operation is atomic.
#[derive(Debug)]
pub struct Vault<F> {
    flash: F,
    halves: [Range<u32>; 2],
    /// Which half is in use.
    current: usize,
    state: State,
    /// An operation failed midway: the flash may differ from `state`. The next operation writes
    /// the whole state to the other half.
    is_in_doubt: bool,
}

impl<F: MultiwriteNorFlash> Vault<F> {
    /// Opens the vault in `range` of `flash` (in bytes; four whole blocks). Creates one where the
    /// flash is blank, and completes an operation that a power cut interrupted.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotBacked`], [`VaultError::Foreign`],
    /// [`VaultError::Damaged`] and [`VaultError::Version`] say what is in the
    /// flash in place of a vault of this version; nothing was written then.
    /// [`VaultError::Range`], and failures of the flash.
    pub fn open(flash: F, range: Range<u32>) -> Result<Self, VaultError> {
        Self::open_shared(flash, range, |_| true)
    }

    /// Opens the vault in `range` of `flash`, where what lies around that may be somebody
    /// else's: a new one is made only if `is_free` says of the flash that nobody else
    /// uses it. Another tenant's last blocks may well be blank.
    ///
    /// # Errors
    ///
    /// As [`Vault::open`]; [`VaultError::Foreign`] where it is not free.
    pub fn open_shared(
        mut flash: F,
        range: Range<u32>,
        is_free: impl FnOnce(&F) -> bool,
    ) -> Result<Self, VaultError> {
        let halves = halves::<F>(&range)?;
        if range.end as usize > flash.capacity() {
            return Err(VaultError::Range);
        }
        let mut choice = choose(&mut flash, &halves)?;
        if let Choice::Begun | Choice::Nothing = choice {
            check_new(&mut flash, &range, &choice)?;
            if matches!(choice, Choice::Nothing) && !is_free(&flash) {
                return Err(VaultError::Foreign);
            }
            half::make_new(&mut flash, &halves[0])?;
            choice = choose(&mut flash, &halves)?;
        }
        let Choice::Valid(current, state) = choice else {
            let offset = range.start;
            return Err(VaultError::NotKept { offset });
        };
        half::wipe(&mut flash, &halves[1 - current])?;
        Ok(Vault {
            flash,
            halves,
            current,
            state,
            is_in_doubt: false,
        })
    }

    /// The key, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.state.secret.key()
    }

    /// Whether there is a key, and if not, whether it was erased on purpose.
    #[must_use]
    pub fn key_state(&self) -> KeyState {
        self.state.secret.state()
    }

    /// The flash, to ask its driver for more than [`crate::FlashFault`] tells.
    #[must_use]
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// The flash, given back.
    #[must_use]
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// Gives a vault without a key its key, durably.
    ///
    /// # Errors
    ///
    /// [`VaultError::KeyPresent`], and failures of the flash; after those the
    /// key may be in the flash, and is not to be used.
    pub fn install_key(&mut self, key: Key) -> Result<(), VaultError> {
        if self.key().is_some() {
            return Err(VaultError::KeyPresent);
        }
        let secret = Secret::Present(key);
        if !self.has_room() {
            return self.move_on(Some(secret), self.state.count, self.state.kept);
        }
        let result = match encode_secret(&secret) {
            Some(bytes) => self.put(TAG_KEY, &bytes[..]),
            None => Ok(()),
        };
        match result {
            Ok(()) => {
                self.state.secret = secret;
                Ok(())
            }
            Err(PutError::NoRoom) => self.move_on(Some(secret), self.state.count, self.state.kept),
            Err(PutError::Failed(error)) => self.doubt(error),
        }
    }

    /// Replaces the key, if there is one, by `key`; no image may wake any more, nor
    /// the snapshot. When this returns, every block that ever held the old key has
    /// been erased and reads as blank. A power cut leaves the old key or the new
    /// one; the next [`Vault::open`] then erases what is left of the old.
    ///
    /// # Errors
    ///
    /// Failures of the flash: the vault may have either key, and the old key may
    /// still be in the flash. Rotate again.
    pub fn rotate_key(&mut self, key: Key) -> Result<(), VaultError> {
        self.move_on(Some(Secret::Present(key)), self.disarmed(), 0)
    }

    /// Erases the key, and with it every image that is sealed under it; none may wake
    /// any more, nor the snapshot. When this returns, every block that ever held the
    /// key has been erased and reads as blank, and the vault says so
    /// ([`KeyState::Erased`]). A power cut leaves the key or the word that it was
    /// erased; the next [`Vault::open`] then erases what is left of it.
    ///
    /// # Errors
    ///
    /// Failures of the flash: the key may still be there. Erase it again.
    pub fn erase_key(&mut self) -> Result<(), VaultError> {
        self.move_on(Some(Secret::Erased), self.disarmed(), 0)
    }

    fn disarmed(&self) -> Count {
        Count {
            stage: Stage::Spent,
            ..self.state.count
        }
    }

    fn has_room(&self) -> bool {
        !self.is_in_doubt && self.state.items < MAX_ITEMS
    }

    fn put(&mut self, tag: u8, value: &[u8]) -> Result<(), PutError> {
        half::put(&mut self.flash, &self.halves[self.current], tag, value)?;
        self.state.items += 1;
        Ok(())
    }

    fn doubt(&mut self, error: VaultError) -> Result<(), VaultError> {
        self.is_in_doubt = true;
        Err(error)
    }

    fn put_count(&mut self, count: Count) -> Result<(), VaultError> {
        self.put_or_move_on(TAG_COUNT, &count.encode(), count, self.state.kept)
    }

    fn put_kept(&mut self, kept: u64) -> Result<(), VaultError> {
        self.put_or_move_on(TAG_KEPT, &kept.to_le_bytes(), self.state.count, kept)
    }

    /// Writes an item by which `count` and `kept` come to hold.
    fn put_or_move_on(
        &mut self,
        tag: u8,
        item: &[u8],
        count: Count,
        kept: u64,
    ) -> Result<(), VaultError> {
        if !self.has_room() {
            return self.move_on(None, count, kept);
        }
        match self.put(tag, item) {
            Ok(()) => {
                self.state.count = count;
                self.state.kept = kept;
                Ok(())
            }
            Err(PutError::NoRoom) => self.move_on(None, count, kept),
            Err(PutError::Failed(error)) => self.doubt(error),
        }
    }

    /// Writes the state with `count`, `kept` and, where given, another `secret`
    /// into the other half, and erases this one.
    fn move_on(
        &mut self,
        secret: Option<Secret>,
        count: Count,
        kept: u64,
    ) -> Result<(), VaultError> {
        self.is_in_doubt = true;
        let epoch = self
            .state
            .epoch
            .checked_add(1)
            .ok_or(VaultError::Exhausted)?;
        let other = 1 - self.current;
        let range = &self.halves[other];
        half::wipe(&mut self.flash, range)?;
        let new = secret.as_ref().unwrap_or(&self.state.secret);
        let items = half::begin(&mut self.flash, range, epoch, new, count, kept)?;
        // From here on that half is the valid one.
        let old = core::mem::replace(&mut self.current, other);
        if let Some(secret) = secret {
            self.state.secret = secret;
        }
        self.state.epoch = epoch;
        self.state.count = count;
        self.state.kept = kept;
        self.state.items = items;
        half::wipe(&mut self.flash, &self.halves[old])?;
        self.is_in_doubt = false;
        Ok(())
    }
}

impl<F: MultiwriteNorFlash> RollbackCounter for Vault<F> {
    fn generation(&self) -> u64 {
        self.state.count.generation
    }

    fn armed(&self) -> Option<u64> {
        let count = self.state.count;
        count.is_armed().then_some(count.generation)
    }

    fn kept(&self) -> Option<u64> {
        Some(self.state.kept).filter(|kept| *kept != 0)
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
            // It may be in the flash, so it is used up.
            self.state.count = Count {
                generation,
                stage: Stage::Spent,
            };
        }
        result.map(|()| generation)
    }

    fn arm(&mut self, generation: u64) -> Result<(), VaultError> {
        let count = self.state.count;
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
        if !self.state.count.is_armed() && !self.is_in_doubt {
            return Ok(());
        }
        self.put_count(self.disarmed())
    }

    fn keep(&mut self, generation: Option<u64>) -> Result<(), VaultError> {
        let kept = generation.unwrap_or(0);
        if kept == self.state.kept && !self.is_in_doubt {
            return Ok(());
        }
        let count = self.state.count;
        let is_reserved = kept == count.generation && count.stage == Stage::Reserved;
        if kept != 0 && kept != self.state.kept && !is_reserved {
            return Err(VaultError::NotReserved {
                generation: kept,
                latest: count.generation,
            });
        }
        self.put_kept(kept)
    }
}

fn halves<F: MultiwriteNorFlash>(range: &Range<u32>) -> Result<[Range<u32>; 2], VaultError> {
    let block = u32::try_from(F::ERASE_SIZE).map_err(|_| VaultError::Range)?;
    let length = block.checked_mul(BLOCKS).ok_or(VaultError::Range)?;
    if !range.start.is_multiple_of(block) || range.end.checked_sub(range.start) != Some(length) {
        return Err(VaultError::Range);
    }
    let middle = range.start + length / 2;
    Ok([range.start..middle, middle..range.end])
}

/// Which half says what is.
enum Choice {
    Valid(usize, State),
    Begun,
    Nothing,
}

fn choose<F: MultiwriteNorFlash>(
    flash: &mut F,
    halves: &[Range<u32>; 2],
) -> Result<Choice, VaultError> {
    match [
        half::read(flash, &halves[0])?,
        half::read(flash, &halves[1])?,
    ] {
        [Contents::Version(found), _] | [_, Contents::Version(found)] => Err(VaultError::Version {
            found,
            known: VAULT_VERSION,
        }),
        [Contents::Valid(a), Contents::Valid(b)] if a.epoch == b.epoch => Err(VaultError::Damaged),
        [Contents::Valid(a), Contents::Valid(b)] if a.epoch < b.epoch => Ok(Choice::Valid(1, b)),
        [Contents::Valid(a), _] => Ok(Choice::Valid(0, a)),
        [_, Contents::Valid(b)] => Ok(Choice::Valid(1, b)),
        [Contents::Begun, _] | [_, Contents::Begun] => Ok(Choice::Begun),
        [Contents::Nothing, Contents::Nothing] => Ok(Choice::Nothing),
    }
}

/// Makes sure that a new vault may be made in `range`, which has no valid half:
/// it is blank, or the making of one was cut off in it.
fn check_new<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
    choice: &Choice,
) -> Result<(), VaultError> {
    if half::is_unfinished(flash, range)? {
        Ok(())
    } else if half::survey(flash, range.clone())?.is_zero {
        Err(VaultError::NotBacked)
    } else if let Choice::Begun = choice {
        Err(VaultError::Damaged)
    } else {
        Err(VaultError::Foreign)
    }
}
