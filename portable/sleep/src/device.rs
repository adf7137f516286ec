use arrayvec::ArrayVec;
use poorwill_medium::Medium;
use poorwill_medium::nvme::SharedNamespace;

use crate::error::AreaError;

/// Devices that are looked at, at most.
pub const MAX_DEVICES: usize = 16;

/// Media of a device at most: a controller's namespaces and its memory region.
pub const MAX_MEDIA: usize = poorwill_medium::nvme::MAX_NAMESPACES + 1;

/// Which medium of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumId {
    /// The namespace of this number.
    Namespace(u32),
    /// The memory that the CPU loads and stores.
    Memory,
}

/// A device that runs, and may hold sleep areas.
pub trait Device {
    /// One of its media, while it is lent.
    type Medium<'m>: LentMedium
    where
        Self: 'm;

    /// Its media, each with the bytes of a block.
    fn media(&self) -> ArrayVec<(MediumId, u32), MAX_MEDIA>;

    /// Lends one of its media; `None` for a format that is not ours.
    ///
    /// # Errors
    ///
    /// Why the medium cannot be used.
    fn medium(&mut self, id: MediumId) -> Result<Option<Self::Medium<'_>>, AreaError>;

    /// What tells one of its media from others, if other devices may reach it, too.
    ///
    /// # Errors
    ///
    /// The device does not describe it.
    fn shared_namespace(&mut self, medium: MediumId) -> Result<Option<SharedNamespace>, AreaError>;
}

/// A medium while it is lent.
pub trait LentMedium {
    /// The medium, of any kind.
    fn disk(&mut self) -> &mut dyn Medium;
}
