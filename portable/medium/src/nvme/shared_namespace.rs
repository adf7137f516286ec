use super::identify::{bits, bytes};
use super::shared::Shared;

/// Bytes of a subsystem's NVMe Qualified Name in Identify Controller.
const NAME_BYTES: usize = 256;

/// A namespace that several controllers of a subsystem may reach (NMIC, bit 0), as one of
/// them describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedNamespace {
    /// The NVMe Qualified Name of the subsystem (SUBNQN), filled up with zeros.
    pub subsystem: [u8; NAME_BYTES],
    /// The controller that describes it (CNTLID), unique in a subsystem.
    pub controller: u16,
    /// Its number (NSID), which is the same for all controllers that share it.
    pub id: u32,
    /// Its identifiers.
    pub identifiers: Identifiers,
}

/// The globally unique identifiers of a namespace; zeros where the device states none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identifiers {
    /// Namespace Globally Unique Identifier.
    pub nguid: [u8; 16],
    /// IEEE Extended Unique Identifier.
    pub eui64: [u8; 8],
    /// UUID.
    pub uuid: [u8; 16],
}

impl SharedNamespace {
    /// Whether both describe one namespace, by two controllers. Identifiers alone do not tell:
    /// some manufacturers give the same ones to all their disks. Two controllers of one number
    /// are in two subsystems, whatever these are named. A namespace without identifiers is
    /// known by its number, which is unique among a subsystem's shared namespaces.
    #[must_use]
    pub fn is_same(&self, other: &SharedNamespace) -> bool {
        self.controller != other.controller
            && self.id == other.id
            && self.subsystem == other.subsystem
            && self.identifiers == other.identifiers
            && self.subsystem[0] != 0
    }
}

/// Whether Identify Namespace describes a shared namespace (NVM Command Set, figure 97).
pub(super) fn is_shared(answer: &Shared<'_>) -> bool {
    bits(answer, 30, 8) & 1 == 1
}

/// The identifiers in Identify Namespace.
pub(super) fn identifiers(answer: &Shared<'_>) -> Identifiers {
    Identifiers {
        nguid: bytes(answer, 104),
        eui64: bytes(answer, 120),
        uuid: [0; 16],
    }
}

/// Adds the identifiers in a list of Namespace Identification Descriptors (figure 277), some of
/// which may not be in Identify Namespace. Each descriptor has a type, a length, two reserved
/// bytes, and so many bytes. A length of 0 ends the list.
pub(super) fn add_listed(identifiers: &mut Identifiers, answer: &Shared<'_>) {
    const HEADER: usize = 4;
    const EUI64: u32 = 1;
    const NGUID: u32 = 2;
    const UUID: u32 = 3;
    let mut at = 0;
    while at + HEADER <= Shared::PAGE_BYTES {
        let (kind, length) = (bits(answer, at, 8), bits(answer, at + 1, 8) as usize);
        let next = at + HEADER + length;
        if length == 0 || next > Shared::PAGE_BYTES {
            return;
        }
        match (kind, length) {
            (EUI64, 8) => identifiers.eui64 = bytes(answer, at + HEADER),
            (NGUID, 16) => identifiers.nguid = bytes(answer, at + HEADER),
            (UUID, 16) => identifiers.uuid = bytes(answer, at + HEADER),
            _ => {}
        }
        at = next;
    }
}

/// The subsystem's name and the controller's number in Identify Controller (figure 275).
pub(super) fn subsystem(answer: &Shared<'_>) -> ([u8; NAME_BYTES], u16) {
    #[allow(clippy::cast_possible_truncation, reason = "16 bits were asked for")]
    let controller = bits(answer, 78, 16) as u16;
    (bytes(answer, 768), controller)
}
