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

/// Bytes of an erase block of the board's flash: of its two chips together.
const BLOCK_BYTES: usize = 256 << 10;

/// A vault in memory, copied out of a flash file: to look at it writes nothing.
type Copied = Vault<SliceFlash<Zeroizing<Vec<u8>>, BLOCK_BYTES>>;

/// What a flash file holds, as it was when it was read.
#[derive(Debug)]
pub struct Flash {
    file: PathBuf,
    /// None in a blank flash.
    vault: Option<Copied>,
    key: Option<SealingKey>,
}

/// What is told of a flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlashReport {
    /// Whether there is a vault; a machine makes one when it first starts.
    pub vault: bool,
    /// Whether there is a key.
    pub key: KeyStatus,
    /// What images name the key by, in hexadecimal. The key itself is never told.
    pub key_id: Option<String>,
    /// How often the machine went to sleep; sleeps that failed are counted too.
    pub sleeps: u64,
    /// The generation whose image may wake: the machine sleeps.
    pub armed: Option<u64>,
}

/// Whether a flash has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// Not yet; the machine's first sleep makes one.
    Missing,
    /// It has.
    Present,
    /// Not any more; the next sleep makes another one.
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
    /// [`FlashError`]; [`FlashError::Vault`] when something else is in it.
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

    /// The file that it was read from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What to tell of it.
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

    /// The version of the vault; that of a new one where there is none yet.
    #[must_use]
    pub fn vault_version(&self) -> u16 {
        (self.vault.as_ref()).map_or(OLDEST_VAULT_VERSION, Vault::version)
    }

    /// For looking at a sleep area as a machine with this flash does: which
    /// images it trusts, and its counter, in memory alone. A blank flash has none
    /// yet; the machine's will let no image wake.
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

    /// Makes a flash file with a key of this host's random bytes.
    ///
    /// # Errors
    ///
    /// [`FlashError::Exists`], [`FlashError::Entropy`], [`FlashError::Write`],
    /// [`FlashError::Vault`]; there is no new file then.
    pub fn create(file: &Path) -> Result<(), FlashError> {
        let key = new_key()?;
        make(file, |blank| {
            open_vault(file, blank)?
                .install_key(key)
                .map_err(|reason| of_vault(file, reason))
        })
    }

    /// Replaces the key in `file`; gives it one if it has none. No byte of the
    /// old key is left in the file then, and no image wakes that was sealed with
    /// it; `even_armed` says that this may cost a sleeping machine its image.
    ///
    /// # Errors
    ///
    /// [`FlashError`]. After [`FlashError::Vault`] with a failure of the flash
    /// either key may be there.
    pub fn rotate(file: &Path, even_armed: bool) -> Result<(), FlashError> {
        let key = new_key()?;
        change(file, even_armed, |vault| vault.rotate_key(key))
    }

    /// Erases the key in `file`: no byte of it is left there then. `even_armed`
    /// as for [`Flash::rotate`].
    ///
    /// # Errors
    ///
    /// As [`Flash::rotate`]; [`FlashError::NoKey`] when there is none.
    pub fn erase(file: &Path, even_armed: bool) -> Result<(), FlashError> {
        if Flash::read(file)?.report().key == KeyStatus::Missing {
            return Err(FlashError::NoKey(file.to_owned()));
        }
        change(file, even_armed, Vault::erase_key)
    }
}

impl Flash {
    /// The key that images are sealed with, if there is one.
    #[must_use]
    pub fn sealing_key(&self) -> Option<&SealingKey> {
        self.key.as_ref()
    }

    /// Acts on `file` as its machine does, with the machine kept away from it: with
    /// its counter, and with its key, which is made where there is none yet.
    ///
    /// # Errors
    ///
    /// [`FlashError`]; nothing was done then.
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
/// [`FlashError::Entropy`].
pub fn new_salt() -> Result<Salt, FlashError> {
    let mut bytes = [0; 8];
    fill_random(&mut bytes)?;
    Ok(Salt(bytes))
}

/// Where the vault lies in the flash.
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

/// Acts on the vault in `file`, with machines kept away from it.
fn change(
    file: &Path,
    even_armed: bool,
    act: impl FnOnce(&mut Vault<FileFlash<BLOCK_BYTES>>) -> Result<(), VaultError>,
) -> Result<(), FlashError> {
    let opened = open_for_change(file)?;
    // Looked at first: opening the vault itself may write.
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
                "blank: a machine that is given it makes its vault, and at its first sleep a key"
            );
        }
        match (&self.key_id, self.key) {
            (Some(id), _) => writeln!(f, "key {id}")?,
            (None, KeyStatus::Erased) => {
                writeln!(f, "no key: it was erased; the next sleep makes another")?;
            }
            (None, _) => writeln!(f, "no key yet: the first sleep makes one")?,
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
