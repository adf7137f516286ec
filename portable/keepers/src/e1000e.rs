//! Keeper.
use poorwill_image::{StateSection, StateWriter};

use crate::device::Device;
use crate::{KeeperError, Machine};

/// Of its sections.
pub(crate) const TAG: &[u8; 3] = b"E1K";

const VERSION: u16 = 1;

/// One that is being quieted.
pub(crate) struct Stopping<M: Machine> {
    registers: M::Window,
}

pub(crate) fn begin<M: Machine>(
    device: &Device<'_, M>,
    until: u64,
) -> Result<Stopping<M>, KeeperError> {
    todo!()
}

impl<M: Machine> Stopping<M> {
    pub(crate) fn finish(
        self,
        device: &Device<'_, M>,
        until: u64,
        into: &mut StateWriter<'_>,
    ) -> Result<(), KeeperError> {
        todo!()
    }
}

pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    todo!()
}

pub(crate) fn put_back<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    todo!()
}

pub(crate) fn announce<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    todo!()
}
