use core::fmt;

use arrayvec::{ArrayString, CapacityError};
use poorwill_manifest::ManifestError;
use poorwill_medium::MediumError;
use poorwill_store::{ConfigurationError, GptError, StoreError, UnguardedPartition};
use rustix::io::Errno;
use thiserror::Error;

/// Linux's name of a block device, which has 31 bytes at most.
pub(crate) type Name = ArrayString<32>;

/// Why a command did not work, or what it found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Error {
    #[error("cannot open {0}: {reason}", reason = Reason(.1))]
    Open(Name, Errno),
    #[error("cannot list Linux's block devices: {reason}", reason = Reason(.0))]
    Blocks(Errno),
    #[error("cannot read what Linux has as {file} of {device}: {reason}", reason = Reason(.reason))]
    Attribute {
        device: Name,
        file: &'static str,
        reason: Errno,
    },
    #[error("what Linux has as {file} of {device} is no number")]
    NoNumber { device: Name, file: &'static str },
    #[error("cannot read what the firmware has told: {reason}", reason = Reason(.0))]
    Told(Errno),
    #[error("the firmware has left no log: is it Poorwill, or an older one?")]
    NoLog,
    #[error("cannot open the firmware's file: {reason}", reason = Reason(.0))]
    Firmware(Errno),
    #[error("the firmware's file: {0}")]
    Manifest(ManifestError<Errno>),
    #[error("that firmware does not take all that is in the sleep area, or nobody can tell")]
    NotTaken,
    #[error("a path or a name is longer than any of Linux's")]
    LongName,
    #[error("a power failure now would not be a cut")]
    NoCut,
    #[error("cannot read what Linux has of a PCI function: {reason}", reason = Reason(.0))]
    Function(Errno),
    #[error("cannot read what Linux has of a virtio device: {reason}", reason = Reason(.0))]
    Virtio(Errno),
    #[error("cannot list what Linux has of devices: {reason}", reason = Reason(.0))]
    Sysfs(Errno),
    #[error("cannot write the answer")]
    Output,
    #[error(transparent)]
    Table(#[from] GptError),
    #[error(
        "partition {partition} of {disk}, the sleep area, is not where Linux has it: \
         let Linux read the table again (blockdev --rereadpt), or start it anew"
    )]
    OtherTable { disk: Name, partition: u32 },
    #[error(
        "there is no sleep area on any NVMe disk of Linux's, so nowhere to keep it: without one the \
         machine sleeps by retain; one in persistent memory is configured on the host \
         (poorwill area set)"
    )]
    NoArea,
    #[error(
        "there are {0} sleep areas, and the firmware uses one only if there is no other: give all \
         but one partition another type"
    )]
    SeveralAreas(usize),
    #[error("cannot read {file}: {reason}", reason = Reason(.reason))]
    List { file: &'static str, reason: Errno },
    #[error("{0} is more than can be looked at")]
    LongList(&'static str),
    #[error(
        "{0} is mounted for writing, so the disk would be another at the second wake: mount it \
         read-only, or cover it by an overlay in memory"
    )]
    Writable(Name),
    #[error(
        "{0} is swapped to, so what lies there would be another at the second wake: swapoff it"
    )]
    Swap(Name),
    #[error(
        "{0}: a snapshot may wake over a disk that its kernel does not know; --unguarded takes it \
         all the same"
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

/// Linux's reason, as a sentence where the user can do something about it.
struct Reason<'e>(&'e Errno);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.0 {
            Errno::ACCESS | Errno::PERM => "permission denied: run it as root",
            Errno::BUSY => "it is in use: mounted, or by another program",
            Errno::NOENT => "there is no such file",
            Errno::INVAL => "it does not take direct access",
            errno => return write!(f, "{errno}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn who_is_not_root_is_told() {
        let disk = Name::from("nvme0n1").unwrap();
        let text = Error::Open(disk, Errno::ACCESS).to_string();
        let wanted = "cannot open nvme0n1: permission denied: run it as root";
        assert_eq!(text, wanted);
    }
}
