use poorwill_image::{ImageKind, Seal};
use poorwill_store::PartitionFingerprint;

use crate::core_state::Moment;

/// The parameters of an image.
#[derive(Debug)]
pub(crate) struct Plan<'g, 'k> {
    pub(crate) generation: u64,
    pub(crate) kind: ImageKind,
    /// The moment of the sleep, the same for all its images.
    pub(crate) at: Moment,
    /// It is the first image of its sleep, and has the machine's state.
    pub(crate) is_first: bool,
    pub(crate) seal: Option<Seal<'k>>,
    /// The fingerprints of the partitions beside the image.
    pub(crate) fingerprints: &'g [PartitionFingerprint],
}
