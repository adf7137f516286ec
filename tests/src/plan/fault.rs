//! Errors of a disk.

use serde::Deserialize;

/// An error that QEMU's blkdebug driver injects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The operation that fails.
    pub on: Operation,
    /// The place at which it fails. Unset: anywhere.
    pub at: Option<Place>,
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
