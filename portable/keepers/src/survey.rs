use poorwill_medium::pci::{self, ConfigSpace, HostBridge};

use crate::kind::{Drivers, Kind};
use crate::{KeeperError, MAX_DEVICES};

/// What of a machine's PCI devices would refuse a [stop](crate::stop()) now, as far as their
/// configuration tells: nothing is touched, and their drivers may go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    in_use: usize,
}

impl Survey {
    /// Nothing looked at yet.
    #[must_use]
    pub const fn new() -> Self {
        Survey { in_use: 0 }
    }

    /// Looks at all devices below a host bridge; `tell` is given each reason.
    ///
    /// # Errors
    ///
    /// [`KeeperError::Pci`]: not all could be looked at.
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
