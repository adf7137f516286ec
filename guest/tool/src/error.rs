use core::fmt;

use arrayvec::{ArrayString, CapacityError};
use poorwill_manifest::ManifestError;
use poorwill_medium::MediumError;
use poorwill_store::{ConfigurationError, GptError, StoreError, UnguardedPartition};
use rustix::io::Errno;
use thiserror::Error;

/// Linux's name of a block device, of 31 bytes at most.
pub(crate) type Name = ArrayString<32>;

/// The most bytes of a domain's name, with its end.
pub(crate) const DOMAIN_BYTES: usize = 64;

/// The name of a domain.
pub(crate) type DomainName = ArrayString<DOMAIN_BYTES>;

/// Why a command failed, or which problem it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Error {
    #[error("cannot open {0}: {reason}", reason = Reason(.1))]
    Open(Name, Errno),
    #[error("cannot list Linux's block devices: {reason}", reason = Reason(.0))]
    Blocks(Errno),
    #[error("cannot read {file} of {device} from sysfs: {reason}", reason = Reason(.reason))]
    Attribute {
        device: Name,
        file: &'static str,
        reason: Errno,
    },
    #[error("{file} of {device} in sysfs is not a number")]
    NoNumber { device: Name, file: &'static str },
    #[error("cannot read the firmware's report: {reason}", reason = Reason(.0))]
    Told(Errno),
    #[error(
        "this OS is domain {0} of a machine with domains: it sleeps by retain, and has no other mode"
    )]
    Domain(DomainName),
    #[error("the firmware left no log: it is not Poorwill, or an older version")]
    NoLog,
    #[error("cannot open the firmware file: {reason}", reason = Reason(.0))]
    Firmware(Errno),
    #[error("the firmware file: {0}")]
    Manifest(ManifestError<Errno>),
    #[error("that firmware may not wake all images in the sleep area: see above")]
    NotTaken,
    #[error("a path or a name is too long for Linux")]
    LongName,
    #[error("a power failure now would not be a cut")]
    NoCut,
    #[error("a sleep without power would lose the state of devices: see above")]
    LosesState,
    #[error("cannot read a PCI function from sysfs: {reason}", reason = Reason(.0))]
    Function(Errno),
    #[error("cannot read a virtio device from sysfs: {reason}", reason = Reason(.0))]
    Virtio(Errno),
    #[error("cannot list devices in sysfs: {reason}", reason = Reason(.0))]
    Sysfs(Errno),
    #[error("cannot write the answer")]
    Output,
    #[error(transparent)]
    Table(#[from] GptError),
    #[error(
        "Linux has an old place of partition {partition} of {disk}, the sleep area: let it read the \
         table again (blockdev --rereadpt), or reboot"
    )]
    OtherTable { disk: Name, partition: u32 },
    #[error(
        "no sleep area on any NVMe disk, so the setting cannot be stored: without an area the \
         machine sleeps by retain; set one in persistent memory on the host (poorwill area set)"
    )]
    NoArea,
    #[error("the sleep area cannot be used, and the machine refuses to sleep: see above")]
    RefusedArea,
    #[error(
        "there are {0} sleep areas, and the firmware uses one only if there is no other: give all \
         but one partition another type"
    )]
    SeveralAreas(usize),
    #[error("cannot read {file}: {reason}", reason = Reason(.reason))]
    List { file: &'static str, reason: Errno },
    #[error("{0}: the list is too long to check")]
    LongList(&'static str),
    #[error(
        "{0} is mounted for writing, and would have other contents at the second wake: mount it \
         read-only, or cover it by an overlay in memory"
    )]
    Writable(Name),
    #[error("{0} is in use as swap, and would have other contents at the second wake: swapoff it")]
    Swap(Name),
    #[error(
        "{0}: a snapshot may wake over a disk that has changed since; give --unguarded to accept \
         that"
    )]
    Unguarded(UnguardedPartition),
    #[error("Linux does not sleep: {reason}", reason = Reason(.0))]
    Sleep(Errno),
    #[error(transparent)]
    Configuration(ConfigurationError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<MediumError> for Error {
    fn from(error: MediumError) -> Self {
        Error::Store(error.into())
    }
}

impl From<fmt::Error> for Error {
    fn from(_: fmt::Error) -> Self {
        Error::Output
    }
}

impl<T> From<CapacityError<T>> for Error {
    fn from(_: CapacityError<T>) -> Self {
        Error::LongName
    }
}

/// Shows Linux's error as advice, if the user can do something about it.
struct Reason<'e>(&'e Errno);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.0 {
            Errno::ACCESS | Errno::PERM => "permission denied: run it as root",
            Errno::BUSY => "it is in use: mounted, or by another program",
            Errno::NOENT => "there is no such file",
            Errno::INVAL => "it does not support direct I/O",
            errno => return write!(f, "{errno}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_user_without_permission_is_told_to_be_root() {
        let disk = Name::from("nvme0n1").unwrap();
        let text = Error::Open(disk, Errno::ACCESS).to_string();
        let wanted = "cannot open nvme0n1: permission denied: run it as root";
        assert_eq!(text, wanted);
    }
}
