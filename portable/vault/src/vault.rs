use core::ops::Range;

use embedded_storage_async::nor_flash::MultiwriteNorFlash;

use crate::half::{self, Contents, Numbers, PutError, State};
use crate::items::{
    Count, Stage, TAG_COUNT, TAG_CUT, TAG_KEPT, TAG_KEY, VAULT_VERSION, encode_secret,
};
use crate::key::{Key, KeyState, Secret};
use crate::{BLOCKS, VaultError};

mod counters;

/// Maximum number of items in a half before the vault moves to the other half. Each access reads
/// all items, so this limits the time of an access. A lower maximum would cost more moves, which
/// erase blocks.
pub const MAX_ITEMS: u32 = 256;

/// The sealing key and the machine's count of sleeps, in NOR flash.
///
/// Two of the vault's four blocks, one *half*, are in use: items are appended to it. When
/// the half is full, or a key must be erased, the whole state moves to the other half,
/// and this half is erased. A half is valid once it has its count. Of two valid halves
/// the newer one counts, so each operation is atomic.
#[derive(Debug)]
pub struct Vault<F> {
    flash: F,
    halves: [Range<u32>; 2],
    current: usize,
    state: State,
    /// An operation failed midway: the flash may differ from `state`. The next operation
    /// writes the whole state to the other half.
    is_in_doubt: bool,
}

impl<F: MultiwriteNorFlash> Vault<F> {
    /// Opens the vault in `range` of `flash` (in bytes; four whole blocks). Creates a
    /// vault if the flash is blank, and completes an operation that a power cut
    /// interrupted.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotBacked`], [`VaultError::Foreign`], [`VaultError::Damaged`] and
    /// [`VaultError::Version`]: the flash does not hold a vault of a known version, and
    /// nothing was written. Also [`VaultError::Range`] and failures of the flash.
    pub fn open(flash: F, range: Range<u32>) -> Result<Self, VaultError> {
        Self::open_shared(flash, range, |_| true)
    }

    /// Opens the vault in `range` of a `flash` that may have other users. Creates a new
    /// vault only if `is_free` returns true: another user's last blocks may be blank,
    /// too.
    ///
    /// # Errors
    ///
    /// As [`Vault::open`]; [`VaultError::Foreign`] if the flash is not free.
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

    /// The key, if there is one and it is not [forgotten](Vault::forget_key).
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.state.secret.as_ref().and_then(Secret::key)
    }

    /// Wipes the key in memory; the flash keeps it. [`Vault::recall_key`] reads it back.
    pub fn forget_key(&mut self) {
        if self.key().is_some() {
            self.state.secret = None;
        }
    }

    /// Reads a forgotten key back from the flash.
    ///
    /// # Errors
    ///
    /// The failure of the flash, or [`VaultError::Damaged`] if the half in use is no
    /// longer valid. The key is still forgotten then.
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

    /// The flash: its driver has more details than [`crate::FlashFault`].
    #[must_use]
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// Returns the flash.
    #[must_use]
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// Installs the first key durably.
    ///
    /// # Errors
    ///
    /// [`VaultError::KeyPresent`], and failures of the flash. After a failure the key may
    /// be in the flash, and must not be used.
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

    /// Replaces the key, if there is one. No image or snapshot may wake any more. When
    /// this returns, every block that ever held the old key is erased and verified. A
    /// power cut leaves the old key or the new one; the next [`Vault::open`] then erases
    /// the rest of the old key.
    ///
    /// # Errors
    ///
    /// Failures of the flash: either key may hold, and the old key may still be in the
    /// flash. Rotate again.
    pub fn rotate_key(&mut self, key: Key) -> Result<(), VaultError> {
        self.move_on(Some(Secret::Present(key)), self.given_up())
    }

    /// Erases the key, and so makes every image sealed under it useless. No image or
    /// snapshot may wake any more. When this returns, every block that ever held the key
    /// is erased and verified, and the vault records the erasure ([`KeyState::Erased`]).
    /// A power cut leaves the key or that record; the next [`Vault::open`] then erases
    /// the rest of the key.
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

    /// The counters after the end of all images: no image may wake. The count of cuts stays, since
    /// a new key makes old cuts invalid anyway.
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

    /// Writes an item that makes `numbers` durable.
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

    /// Writes the state with `numbers` and, if given, a new `secret` into the other half,
    /// and erases this one.
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
        let new = new.expect("recall_key has read the key");
        let items = half::begin(&mut self.flash, range, epoch, new, numbers)?;
        // From here on the other half is the valid one.
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

/// The half that holds the vault's state, if any.
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

/// Checks that a new vault may be created in `range`, which has no valid half: it must be
/// blank, or hold an unfinished new vault.
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
