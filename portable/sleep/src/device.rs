use arrayvec::ArrayVec;
use poorwill_medium::Medium;
use poorwill_medium::nvme::SharedNamespace;
use poorwill_store::DiskId;

use crate::error::AreaError;

/// Maximum number of devices that are searched.
pub const MAX_DEVICES: usize = 16;

/// Maximum number of media of a device: a controller's namespaces and its memory region.
pub const MAX_MEDIA: usize = poorwill_medium::nvme::MAX_NAMESPACES + 1;

/// Selects a medium of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumId {
    /// The namespace with this number.
    Namespace(u32),
    /// The memory that the CPU accesses directly.
    Memory,
}

impl From<MediumId> for DiskId {
    fn from(id: MediumId) -> Self {
        match id {
            MediumId::Namespace(number) => DiskId(number),
            MediumId::Memory => DiskId::MEMORY,
        }
    }
}

/// A running device that may hold sleep areas.
pub trait Device {
    /// The type of a lent medium.
    type Medium<'m>: LentMedium
    where
        Self: 'm;

    /// The device's media, each with its block size in bytes. Their positions may differ after a
    /// power-off: a medium is known by its [`MediumId`].
    fn media(&self) -> ArrayVec<(MediumId, u32), MAX_MEDIA>;

    /// Lends a medium; `None` if its format is unknown.
    ///
    /// # Errors
    ///
    /// Why the medium cannot be used.
    fn medium(&mut self, id: MediumId) -> Result<Option<Self::Medium<'_>>, AreaError>;

    /// Identifies a medium that other devices may reach, too; `None` if only this device can.
    ///
    /// # Errors
    ///
    /// The device does not describe it.
    fn shared_namespace(&mut self, medium: MediumId) -> Result<Option<SharedNamespace>, AreaError>;
}

/// A lent medium.
pub trait LentMedium {
    /// The medium, as a trait object.
    fn disk(&mut self) -> &mut dyn Medium;
}
