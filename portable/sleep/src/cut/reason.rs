use poorwill_image::StateError;
use poorwill_pci::Function;
use thiserror::Error;

use super::misfit::Misfit;

/// Why no cut is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CutReason {
    /// The hold-up was too short, or the firmware failed before the commit.
    #[error("the power was lost before the cut was committed")]
    PowerLost,
    /// A hart did not stop in time.
    #[error("hart {0} did not stop in time")]
    HartNotStopped(u64),
    /// The state of a hart cannot be saved.
    #[error("hart {0}: its state cannot be saved")]
    HartState(u64),
    /// A hart may not execute the instruction that writes its caches back.
    #[error("hart {0} cannot write its caches back")]
    CachesLeft(u64),
    /// This number of bytes does not fit into a part.
    #[error("cut record: {0} bytes do not fit")]
    NoRoom(u64),
    /// A PCI function without a keeper is in use.
    #[error("the PCI function {0} is in use, and the firmware cannot restore it")]
    LiveFunction(Function),
    /// A device without a keeper is in use, at this address.
    #[error("the device at {0:#x} is in use, and the firmware cannot restore it")]
    LiveDevice(u64),
    /// A PCI function is in a state that its keeper cannot save.
    #[error("the PCI function {0} is in a state that cannot be kept")]
    FunctionState(Function),
    /// A disk did not store its data in time.
    #[error("the PCI function {0} did not finish in time")]
    FunctionNotDone(Function),
    /// A disk may need this number of microseconds to store its data, but fewer were left.
    #[error("the PCI function {0} may take {1} us to write its cache, and there was less time")]
    FunctionTooSlow(Function, u32),
    /// The function is missing, or is another one than in the record.
    #[error("the PCI function {0} has changed or is gone")]
    FunctionChanged(Function),
    /// A PCI function has virtual functions (SR-IOV), which the keepers cannot find.
    #[error("the PCI function {0} has virtual functions, which the firmware cannot restore")]
    VirtualFunctions(Function),
    /// A save has left memory encrypted. The key is missing, or a device had access to the memory.
    #[error("memory is still encrypted and cannot be decrypted")]
    Sealed,
    /// A consumed image was being loaded: memory holds old contents and parts of the image.
    #[error("the power was lost before an image was fully loaded")]
    Loading,
    /// Memory does not hold the committed record.
    #[error("the record is damaged")]
    Damaged,
    /// The record is another machine's, or another firmware's.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The cut was resumed before, or a later start has discarded it.
    #[error("the record is outdated")]
    Old,
    /// The record's tags are not made with this machine's key.
    #[error("the record is not authentic")]
    Forged,
    /// The record was written on a machine with a vault.
    #[error("the record needs a vault for its authentication, and the machine has no vault")]
    NoVault,
    /// The vault exists, but cannot be used.
    #[error("the vault cannot be used, so the record cannot be authenticated")]
    Vault,
    /// The machine has resumed this cut. Then it lost its power without a signal of the power-fail
    /// line, or it was reset by another cause than its OS.
    #[error("power was lost, or the machine reset, after resuming cut {0}")]
    NoOther(u64),
    /// No cut has begun, since the OS has ended in an orderly way. The console does not print this.
    #[error("the machine was switched off")]
    Ended,
    /// The power was lost during the restore, without a hold-up.
    #[error("the contents of the wear-levelling registers are lost")]
    WearLost,
    /// The memory controller has reported an uncorrectable error.
    #[error("memory has an uncorrectable error")]
    MemoryError,
    /// The memory controller has reported an uncorrectable error, and all memory was wiped.
    #[error("memory had an uncorrectable error, and was wiped")]
    Wiped,
    /// A device on the bus of memory has not finished an operation.
    #[error("the device at {0:#x} is in a state that cannot be kept")]
    DeviceState(u64),
    /// An interrupt controller has not sent a message that a hart had requested.
    #[error("an interrupt controller did not send a message in time")]
    MessageLeft,
    /// A hart still used the key of the cut, so that the key could not be wiped.
    #[error("a hart still uses the key of the cut, so it cannot be wiped")]
    KeyLeft,
    /// A reason of a later version.
    #[error("reason {0}, which this version does not know")]
    Other(u64),
}

impl CutReason {
    /// The reason as words of a line.
    pub(super) fn to_words(self) -> (u64, u64) {
        match self {
            CutReason::PowerLost => (0, 0),
            CutReason::HartNotStopped(hart) => (1, hart),
            CutReason::HartState(hart) => (2, hart),
            CutReason::NoRoom(bytes) => (3, bytes),
            CutReason::CachesLeft(hart) => (4, hart),
            CutReason::Damaged => (5, 0),
            CutReason::Misfit(Misfit::Pci) => (6, 1),
            // Stop finds no other misfit, so the record has no words for them.
            CutReason::Misfit(_) => (6, 0),
            CutReason::LiveFunction(function) => (7, function.routing_id().into()),
            CutReason::LiveDevice(address) => (8, address),
            CutReason::FunctionState(function) => (9, function.routing_id().into()),
            CutReason::FunctionNotDone(function) => (10, function.routing_id().into()),
            CutReason::FunctionChanged(function) => (11, function.routing_id().into()),
            CutReason::FunctionTooSlow(function, us) => {
                (12, u64::from(us) << 16 | u64::from(function.routing_id()))
            }
            CutReason::Sealed => (13, 0),
            CutReason::Loading => (14, 0),
            CutReason::VirtualFunctions(function) => (15, function.routing_id().into()),
            CutReason::Old => (16, 0),
            CutReason::Forged => (17, 0),
            CutReason::NoVault => (18, 0),
            CutReason::Vault => (19, 0),
            CutReason::NoOther(sequence) => (20, sequence),
            CutReason::Ended => (21, 0),
            CutReason::WearLost => (22, 0),
            CutReason::MemoryError => (23, 0),
            CutReason::Wiped => (24, 0),
            CutReason::DeviceState(address) => (25, address),
            CutReason::MessageLeft => (26, 0),
            CutReason::KeyLeft => (27, 0),
            CutReason::Other(code) => (code, 0),
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "the word that was written has 32 bits"
    )]
    pub(super) fn from_words(code: u64, value: u64) -> Self {
        match code {
            0 => CutReason::PowerLost,
            1 => CutReason::HartNotStopped(value),
            2 => CutReason::HartState(value),
            3 => CutReason::NoRoom(value),
            4 => CutReason::CachesLeft(value),
            5 => CutReason::Damaged,
            6 if value == 1 => CutReason::Misfit(Misfit::Pci),
            6 => CutReason::Misfit(Misfit::Unnamed),
            7 => CutReason::LiveFunction(function(value)),
            8 => CutReason::LiveDevice(value),
            9 => CutReason::FunctionState(function(value)),
            10 => CutReason::FunctionNotDone(function(value)),
            11 => CutReason::FunctionChanged(function(value)),
            12 => CutReason::FunctionTooSlow(function(value), (value >> 16) as u32),
            13 => CutReason::Sealed,
            14 => CutReason::Loading,
            15 => CutReason::VirtualFunctions(function(value)),
            16 => CutReason::Old,
            17 => CutReason::Forged,
            18 => CutReason::NoVault,
            19 => CutReason::Vault,
            20 => CutReason::NoOther(value),
            21 => CutReason::Ended,
            22 => CutReason::WearLost,
            23 => CutReason::MemoryError,
            24 => CutReason::Wiped,
            25 => CutReason::DeviceState(value),
            26 => CutReason::MessageLeft,
            27 => CutReason::KeyLeft,
            other => CutReason::Other(other),
        }
    }
}

impl From<StateError> for CutReason {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NoRoom { needed, .. } => CutReason::NoRoom(needed as u64),
            error => CutReason::Misfit(error.into()),
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "it was one")]
fn function(routing_id: u64) -> Function {
    Function::from_routing_id(routing_id as u16)
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_reason_is_read_as_what_it_was_written_as() {
        for code in 0..=27 {
            let (written, _) = CutReason::from_words(code, 5).to_words();
            assert_eq!(written, code);
        }
        let function = Function {
            bus: 1,
            device: 2,
            function: 3,
        };
        let reason = CutReason::LiveFunction(function);
        let (code, value) = reason.to_words();
        assert_eq!(CutReason::from_words(code, value), reason);
        let slow = CutReason::FunctionTooSlow(function, u32::MAX);
        let (code, value) = slow.to_words();
        assert_eq!(CutReason::from_words(code, value), slow);
        assert!(reason.to_string().starts_with("the PCI function 01:02.3 "));
    }
}
