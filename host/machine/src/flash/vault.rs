use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use poorwill_image::{Salt, SealingKey, Trust};
use poorwill_vault::{
    FileFlash, KEY_BYTES, Key, KeyState, OLDEST_VAULT_VERSION, RollbackCounter, SliceFlash, Vault,
    VaultError, range_in_bank,
};
use serde::Serialize;
use zeroize::Zeroizing;

use super::file::{FLASH_BYTES, FlashError, make, open_for_change, open_to_look};

/// Bytes of an erase block of the board's flash: both chips together.
const BLOCK_BYTES: usize = 256 << 10;

/// A vault on a copy in memory, so that reading it does not change the flash file.
type Copied = Vault<SliceFlash<Zeroizing<Vec<u8>>, BLOCK_BYTES>>;

/// A flash file's contents at the time of reading.
#[derive(Debug)]
pub struct Flash {
    file: PathBuf,
    /// `None`: the flash is blank.
    vault: Option<Copied>,
    key: Option<SealingKey>,
}

/// A summary of a flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlashReport {
    /// Whether there is a vault. A machine creates it at its first start.
    pub vault: bool,
    pub key: KeyStatus,
    /// The key's ID in images, in hexadecimal. The key itself is never shown.
    pub key_id: Option<String>,
    /// Number of sleeps, failed ones included.
    pub sleeps: u64,
    /// The generation of the image that may wake. If set, the machine sleeps.
    pub armed: Option<u64>,
}

/// Whether a flash has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// Not yet; the machine's first sleep creates one.
    Missing,
    /// It has one.
    Present,
    /// It was erased; the next sleep creates another.
    Erased,
}

impl From<KeyState> for KeyStatus {
    fn from(state: KeyState) -> Self {
        match state {
            KeyState::Missing => KeyStatus::Missing,
            KeyState::Present => KeyStatus::Present,
            KeyState::Erased => KeyStatus::Erased,
        }
    }
}

impl Flash {
    /// Reads a flash, without writing.
    ///
    /// # Errors
    ///
    /// [`FlashError::Vault`]: the flash holds something else.
    pub fn read(file: &Path) -> Result<Self, FlashError> {
        Self::read_from(file, &open_to_look(file)?)
    }

    fn read_from(file: &Path, opened: &File) -> Result<Self, FlashError> {
        let range = vault_range();
        let mut bytes = Zeroizing::new(vec![0; (range.end - range.start) as usize]);
        opened
            .read_exact_at(&mut bytes, range.start.into())
            .map_err(|reason| FlashError::Read {
                file: file.to_owned(),
                reason,
            })?;
        let vault = if bytes.iter().all(|byte| *byte == 0xff) {
            None
        } else {
            let range = 0..range.end - range.start;
            let vault = Vault::open(SliceFlash::new(bytes), range);
            Some(vault.map_err(|reason| of_vault(file, reason))?)
        };
        let key = vault.as_ref().and_then(Vault::key).map(sealing_key);
        Ok(Flash {
            file: file.to_owned(),
            vault,
            key,
        })
    }

    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    #[must_use]
    pub fn report(&self) -> FlashReport {
        let vault = self.vault.as_ref();
        FlashReport {
            vault: vault.is_some(),
            key: vault.map_or(KeyStatus::Missing, |vault| vault.key_state().into()),
            key_id: self.key.as_ref().map(|key| key.id().to_string()),
            sleeps: vault.map_or(0, RollbackCounter::generation),
            armed: vault.and_then(RollbackCounter::armed),
        }
    }

    /// The version of the vault. For a blank flash it is that of a new vault.
    #[must_use]
    pub fn vault_version(&self) -> u16 {
        (self.vault.as_ref()).map_or(OLDEST_VAULT_VERSION, Vault::version)
    }

    /// The keys and the counter by which a machine with this flash judges the images of a sleep
    /// area. Changes stay in memory. A blank flash has neither: its machine wakes no image.
    pub fn judge(&mut self) -> (Trust<'_>, Option<&mut dyn RollbackCounter>) {
        let erased = self.report().key == KeyStatus::Erased;
        let trust = match &self.key {
            Some(key) => Trust::Sealed(key),
            None => Trust::NoKey { erased },
        };
        match &mut self.vault {
            Some(vault) => (trust, Some(vault)),
            None => (trust, None),
        }
    }

    /// Creates a flash file with a key from the host's random bytes.
    ///
    /// # Errors
    ///
    /// After a [`FlashError`] no new file is left.
    pub fn create(file: &Path) -> Result<(), FlashError> {
        let key = new_key()?;
        make(file, |blank| {
            open_vault(file, blank)?
                .install_key(key)
                .map_err(|reason| of_vault(file, reason))
        })
    }

    /// Replaces the key in `file`, or creates the first one. No byte of the old key remains, and no
    /// image that it sealed wakes. `even_armed` allows this for a sleeping machine, whose image is
    /// then lost.
    ///
    /// # Errors
    ///
    /// After a [`FlashError::Vault`] with a failure of the flash, the file may have either key.
    pub fn rotate(file: &Path, even_armed: bool) -> Result<(), FlashError> {
        let key = new_key()?;
        change(file, even_armed, |vault| vault.rotate_key(key))
    }

    /// Erases the key in `file`; no byte of it remains. `even_armed` is as for [`Flash::rotate`].
    ///
    /// # Errors
    ///
    /// As [`Flash::rotate`]; [`FlashError::NoKey`] without a key.
    pub fn erase(file: &Path, even_armed: bool) -> Result<(), FlashError> {
        if Flash::read(file)?.report().key == KeyStatus::Missing {
            return Err(FlashError::NoKey(file.to_owned()));
        }
        change(file, even_armed, Vault::erase_key)
    }
}

impl Flash {
    /// The key that seals images.
    #[must_use]
    pub fn sealing_key(&self) -> Option<&SealingKey> {
        self.key.as_ref()
    }

    /// Locks `file`, and calls `act` with its counter and its key. A missing key is created.
    ///
    /// # Errors
    ///
    /// After a [`FlashError`], `act` was not called.
    pub fn change<R>(
        file: &Path,
        act: impl FnOnce(&mut (dyn RollbackCounter + 'static), &SealingKey) -> R,
    ) -> Result<R, FlashError> {
        let mut vault = open_vault(file, open_for_change(file)?)?;
        if vault.key().is_none() {
            let key = new_key()?;
            vault
                .install_key(key)
                .map_err(|reason| of_vault(file, reason))?;
        }
        let key = vault
            .key()
            .map(sealing_key)
            .ok_or_else(|| FlashError::NoKey(file.to_owned()))?;
        Ok(act(&mut vault, &key))
    }
}

/// Random bytes for an image's seal.
///
/// # Errors
///
/// [`FlashError`].
pub fn new_salt() -> Result<Salt, FlashError> {
    let mut bytes = [0; 8];
    fill_random(&mut bytes)?;
    Ok(Salt(bytes))
}

/// The vault's range in the flash.
fn vault_range() -> Range<u32> {
    let range = range_in_bank(FLASH_BYTES, BLOCK_BYTES as u64).expect("whole blocks");
    let offset = |at| u32::try_from(at).expect("a flash has less than 4 GiB");
    offset(range.start)..offset(range.end)
}

fn open_vault(file: &Path, opened: File) -> Result<Vault<FileFlash<BLOCK_BYTES>>, FlashError> {
    let flash = FileFlash::new(opened).map_err(|reason| FlashError::Read {
        file: file.to_owned(),
        reason,
    })?;
    Vault::open(flash, vault_range()).map_err(|reason| of_vault(file, reason))
}

/// Opens the vault in `file` for `act`, under a lock.
fn change(
    file: &Path,
    even_armed: bool,
    act: impl FnOnce(&mut Vault<FileFlash<BLOCK_BYTES>>) -> Result<(), VaultError>,
) -> Result<(), FlashError> {
    let opened = open_for_change(file)?;
    // A copy is checked first: opening the vault itself may write to the flash.
    if let Some(generation) = Flash::read_from(file, &opened)?.report().armed
        && !even_armed
    {
        return Err(FlashError::Armed {
            file: file.to_owned(),
            generation,
        });
    }
    let mut vault = open_vault(file, opened)?;
    act(&mut vault).map_err(|reason| of_vault(file, reason))
}

fn of_vault(file: &Path, reason: VaultError) -> FlashError {
    FlashError::Vault {
        file: file.to_owned(),
        reason,
    }
}

fn sealing_key(key: &Key) -> SealingKey {
    SealingKey::new(*key.bytes())
}

fn new_key() -> Result<Key, FlashError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    fill_random(&mut bytes[..])?;
    Ok(Key::new(&bytes))
}

fn fill_random(bytes: &mut [u8]) -> Result<(), FlashError> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(FlashError::Entropy(io::Error::from(error))),
        }
    }
    Ok(())
}

impl fmt::Display for FlashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.vault {
            return writeln!(
                f,
                "blank: a machine creates its vault at its first start, and a key at its first sleep"
            );
        }
        match (&self.key_id, self.key) {
            (Some(id), _) => writeln!(f, "key {id}")?,
            (None, KeyStatus::Erased) => {
                writeln!(f, "no key: it was erased; the next sleep creates another")?;
            }
            (None, _) => writeln!(f, "no key yet: the first sleep creates one")?,
        }
        writeln!(f, "sleeps so far: {}", self.sleeps)?;
        match self.armed {
            Some(generation) => {
                writeln!(f, "asleep: the image of generation {generation} may wake")
            }
            None => writeln!(f, "no image may wake"),
        }
    }
}
