//! Flash that may hold a vault, as far as cuts see it. That each of a vault's operations is
//! atomic is shown by its own tests; here it happens whole or not at all.

use poorwill_sleep::VaultFault;
use poorwill_sleep::cut::Proof;
use poorwill_vault::{
    CutCounter, FlashFault, Key, KeyState, KeyVault, RollbackCounter, VaultError,
};

use crate::machine::{Machine, Mutant};

/// What the flash holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flash {
    Absent,
    /// It cannot be read.
    Broken,
    Vault {
        cut: u64,
        key: Option<[u8; 32]>,
    },
}

pub(crate) const FAULT: VaultFault = VaultFault::Vault(ERROR);
pub(crate) const ERROR: VaultError = VaultError::Flash(FlashFault::Device);

impl Flash {
    /// With a new vault.
    pub(crate) const NEW: Flash = Flash::Vault { cut: 0, key: None };

    /// What proves the next cut of a machine that has started.
    pub(crate) fn proof(self) -> Option<Proof> {
        match self {
            Flash::Absent => Some(Proof::Checksums),
            Flash::Broken | Flash::Vault { key: None, .. } => None,
            Flash::Vault {
                cut,
                key: Some(key),
            } => Some(Proof::tags(&Key::new(&key), cut)),
        }
    }

    pub(crate) fn cut(self) -> u64 {
        match self {
            Flash::Vault { cut, .. } => cut,
            Flash::Absent | Flash::Broken => 0,
        }
    }
}

/// The vault, open.
pub(crate) struct TestVault<'m> {
    machine: &'m Machine,
    key: Option<Key>,
}

impl<'m> TestVault<'m> {
    pub(crate) fn new(machine: &'m Machine) -> Self {
        let key = match machine.flash.get() {
            Flash::Vault { key, .. } => key.map(|key| Key::new(&key)),
            Flash::Absent | Flash::Broken => None,
        };
        TestVault { machine, key }
    }

    fn write(
        &self,
        change: impl FnOnce(&mut u64, &mut Option<[u8; 32]>),
    ) -> Result<(), VaultError> {
        let mut flash = self.machine.flash.get();
        let Flash::Vault { cut, key } = &mut flash else {
            panic!("it is open");
        };
        change(cut, key);
        // From here on it may be there.
        self.machine.writes.set(Some(flash));
        self.machine.step();
        self.machine.writes.set(None);
        let failing = self.machine.failing_write.get();
        self.machine.failing_write.set(failing.saturating_sub(1));
        if failing == 1 {
            return Err(ERROR);
        }
        self.machine.flash.set(flash);
        Ok(())
    }
}

impl CutCounter for TestVault<'_> {
    fn cut(&self) -> u64 {
        self.machine.flash.get().cut()
    }

    fn make_room(&mut self) -> Result<(), VaultError> {
        self.write(|_, _| ())
    }

    fn next_cut(&mut self) -> Result<u64, VaultError> {
        let next = self.cut() + 1;
        if self.machine.mutant.get() != Some(Mutant::NoNextCut) {
            self.write(|cut, _| *cut = next)?;
        }
        Ok(next)
    }
}

impl KeyVault for TestVault<'_> {
    fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    fn key_state(&self) -> KeyState {
        match self.key {
            Some(_) => KeyState::Present,
            None => KeyState::Missing,
        }
    }

    fn install_key(&mut self, key: Key) -> Result<(), VaultError> {
        self.write(|_, kept| *kept = Some(*key.bytes()))?;
        self.key = Some(key);
        Ok(())
    }
}

/// The machine does not sleep.
impl RollbackCounter for TestVault<'_> {
    fn generation(&self) -> u64 {
        0
    }

    fn armed(&self) -> Option<u64> {
        None
    }

    fn kept(&self) -> Option<u64> {
        None
    }

    fn reserve(&mut self, _: u64) -> Result<u64, VaultError> {
        Err(VaultError::Exhausted)
    }

    fn arm(&mut self, _: u64) -> Result<(), VaultError> {
        Err(VaultError::Exhausted)
    }

    fn disarm(&mut self) -> Result<(), VaultError> {
        Err(VaultError::Exhausted)
    }

    fn keep(&mut self, _: Option<u64>) -> Result<(), VaultError> {
        Err(VaultError::Exhausted)
    }
}
