//! Errors of a disk, and forged contents.

use serde::Deserialize;

/// An error that QEMU's blkdebug driver injects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The operation that fails.
    pub on: Operation,
    /// The place at which it fails. Unset: anywhere.
    pub at: Option<Place>,
    /// The part of the set that has the place.
    #[serde(default)]
    pub part: usize,
    /// The occurrence that fails, counted from 1 since power-on. Unset: each one.
    pub nth: Option<u32>,
}

/// An operation of a disk.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush of the write cache.
    Flush,
}

/// A place in the sleep area. Before the first sleep there are only the record and the header of
/// the first slot.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The record of the slot with the image.
    Record,
    /// The image's header.
    Header,
    /// The image's machine state.
    State,
    /// The image's map of pages.
    Map,
    /// The image's digests.
    Digests,
    /// The middle of the image's page data.
    Data,
    /// The last page of the image's page data.
    DataEnd,
}

/// A forgery of a part of a set. An attacker makes it with right checksums.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Forgery {
    /// The hart with this ID slept.
    Hart(u64),
    /// The OS continues at this address.
    Vector(u64),
    /// The first kept CSR has this number.
    Csr(u64),
    /// The section of the APLIC is of the domain with this number.
    Section(u16),
    /// Each of the APLIC's sources is active, and sends this interrupt identity to another hart.
    Targets(u32),
    /// The image is of this many pages more.
    Pages(u64),
    /// The part is of another domain.
    Name,
}
