use core::ops::Range;

use embedded_storage_async::nor_flash::MultiwriteNorFlash;

use crate::half::{self, Contents, Numbers, PutError, State};
use crate::items::{
    Count, Stage, TAG_COUNT, TAG_CUT, TAG_KEPT, TAG_KEY, VAULT_VERSION, encode_secret,
};
use crate::key::{Key, KeyState, Secret};
use crate::{BLOCKS, VaultError};

mod counters;

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

    /// The key, if there is one, and it was not [forgotten](Vault::forget_key).
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.state.secret.as_ref().and_then(Secret::key)
    }

    /// Wipes the key in memory. The flash keeps it, and what needs it meanwhile reads it
    /// there; [`Vault::key`] has it again after [`Vault::recall_key`].
    pub fn forget_key(&mut self) {
        if self.key().is_some() {
            self.state.secret = None;
        }
    }

    /// Reads a key that was forgotten back from the flash.
    ///
    /// # Errors
    ///
    /// The failure of the flash, or [`VaultError::Damaged`]: the half in use does not read
    /// as it was. The key is still forgotten then.
    pub fn recall_key(&mut self) -> Result<(), VaultError> {
        if self.state.secret.is_none() {
            let read = half::read(&mut self.flash, &self.halves[self.current])?;
            let Contents::Valid(state) = read else {
                return Err(VaultError::Damaged);
            };
            self.state.secret = state.secret;
        }
        Ok(())
    }

    /// The version of the vault in the flash.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.state.version
    }

    /// Whether there is a key, and if not, whether it was erased on purpose.
    #[must_use]
    pub fn key_state(&self) -> KeyState {
        (self.state.secret.as_ref()).map_or(KeyState::Present, Secret::state)
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
        if self.key_state() == KeyState::Present {
            return Err(VaultError::KeyPresent);
        }
        let secret = Secret::Present(key);
        if !self.has_room() {
            return self.move_on(Some(secret), self.state.numbers);
        }
        let result = match encode_secret(&secret) {
            Some(bytes) => self.put(TAG_KEY, &bytes[..]),
            None => Ok(()),
        };
        match result {
            Ok(()) => {
                self.state.secret = Some(secret);
                Ok(())
            }
            Err(PutError::NoRoom) => self.move_on(Some(secret), self.state.numbers),
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
        self.move_on(Some(Secret::Present(key)), self.given_up())
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
        self.move_on(Some(Secret::Erased), self.given_up())
    }

    fn disarmed(&self) -> Count {
        Count {
            stage: Stage::Spent,
            ..self.state.numbers.count
        }
    }

    /// With no image that may wake. A cut is authentic under the old key alone.
    fn given_up(&self) -> Numbers {
        Numbers {
            count: self.disarmed(),
            kept: 0,
            ..self.state.numbers
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
        let numbers = Numbers {
            count,
            ..self.state.numbers
        };
        self.put_or_move_on(TAG_COUNT, &count.encode(), numbers)
    }

    fn put_kept(&mut self, kept: u64) -> Result<(), VaultError> {
        let numbers = Numbers {
            kept,
            ..self.state.numbers
        };
        self.put_or_move_on(TAG_KEPT, &kept.to_le_bytes(), numbers)
    }

    fn put_cut(&mut self, cut: u64) -> Result<(), VaultError> {
        let numbers = Numbers {
            cut,
            ..self.state.numbers
        };
        self.put_or_move_on(TAG_CUT, &cut.to_le_bytes(), numbers)
    }

    /// Writes an item by which `numbers` come to hold.
    fn put_or_move_on(&mut self, tag: u8, item: &[u8], numbers: Numbers) -> Result<(), VaultError> {
        if !self.has_room() || numbers.version() > self.state.version {
            return self.move_on(None, numbers);
        }
        match self.put(tag, item) {
            Ok(()) => {
                self.state.numbers = numbers;
                Ok(())
            }
            Err(PutError::NoRoom) => self.move_on(None, numbers),
            Err(PutError::Failed(error)) => self.doubt(error),
        }
    }

    /// Writes the state with `numbers` and, where given, another `secret` into the other
    /// half, and erases this one.
    fn move_on(&mut self, secret: Option<Secret>, numbers: Numbers) -> Result<(), VaultError> {
        self.is_in_doubt = true;
        let is_away = self.state.secret.is_none();
        self.recall_key()?;
        let moved = self.move_on_with(secret, numbers);
        if is_away {
            self.forget_key();
        }
        moved
    }

    fn move_on_with(&mut self, secret: Option<Secret>, numbers: Numbers) -> Result<(), VaultError> {
        let epoch = self
            .state
            .epoch
            .checked_add(1)
            .ok_or(VaultError::Exhausted)?;
        let other = 1 - self.current;
        let range = &self.halves[other];
        half::wipe(&mut self.flash, range)?;
        let new = secret.as_ref().or(self.state.secret.as_ref());
        let new = new.expect("it was recalled");
        let items = half::begin(&mut self.flash, range, epoch, new, numbers)?;
        // From here on that half is the valid one.
        let old = core::mem::replace(&mut self.current, other);
        if let Some(secret) = secret {
            self.state.secret = Some(secret);
        }
        self.state.epoch = epoch;
        self.state.version = numbers.version();
        self.state.numbers = numbers;
        self.state.items = items;
        half::wipe(&mut self.flash, &self.halves[old])?;
        self.is_in_doubt = false;
        Ok(())
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
