use poorwill_pci::{self as pci, ConfigSpace, HostBridge};

use crate::kind::{Drivers, Kind};
use crate::{KeeperError, MAX_DEVICES};

/// Finds the PCI devices that would make a [stop](crate::stop()) fail now. It only reads
/// their configuration, so their drivers may run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    in_use: usize,
}

impl Survey {
    /// A survey that has not examined a device yet.
    #[must_use]
    pub const fn new() -> Self {
        Survey { in_use: 0 }
    }

    /// Examines all devices below a host bridge; calls `tell` with each reason.
    ///
    /// # Errors
    ///
    /// [`KeeperError::Pci`]: not all devices could be examined.
    pub fn look(
        &mut self,
        config: &impl ConfigSpace,
        host: &HostBridge,
        mut tell: impl FnMut(KeeperError),
    ) -> Result<(), KeeperError> {
        for listed in pci::list(config, host)? {
            match Kind::of_used(config, &listed, Drivers::Running) {
                Ok(None) => {}
                Err(error) => tell(error),
                Ok(Some(_)) if self.in_use == MAX_DEVICES => {
                    tell(KeeperError::TooMany(listed.function));
                }
                Ok(Some(_)) => self.in_use += 1,
            }
        }
        Ok(())
    }
}
