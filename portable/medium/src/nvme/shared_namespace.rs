use super::identify::{bits, bytes};
use super::shared::Shared;

/// The length of a subsystem's NVMe Qualified Name in Identify Controller.
const NAME_BYTES: usize = 256;

/// A namespace that several controllers of a subsystem may share (NMIC, bit 0), as
/// described by one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedNamespace {
    /// The NVMe Qualified Name of the subsystem (SUBNQN), padded with zeros.
    pub subsystem: [u8; NAME_BYTES],
    /// The number of the describing controller (CNTLID), unique in a subsystem.
    pub controller: u16,
    /// The namespace's number (NSID), equal in all controllers that share it.
    pub id: u32,
    /// The globally unique identifiers.
    pub identifiers: Identifiers,
}

/// The globally unique identifiers of a namespace; zeros if the device reports none.
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
    /// Whether both describe the same namespace through two controllers. Identifiers
    /// alone are not sufficient: some manufacturers use the same ones for all their
    /// disks. Two controllers with equal numbers belong to different subsystems, even if
    /// the names are equal. A namespace without identifiers is identified by its number,
    /// which is unique among a subsystem's shared namespaces.
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

pub(super) fn identifiers(answer: &Shared<'_>) -> Identifiers {
    Identifiers {
        nguid: bytes(answer, 104),
        eui64: bytes(answer, 120),
        uuid: [0; 16],
    }
}

/// Adds the identifiers from a list of Namespace Identification Descriptors (figure 277),
/// which may include more than Identify Namespace. A descriptor has a type, a length, two
/// reserved bytes, and its bytes. A length of 0 ends the list.
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
