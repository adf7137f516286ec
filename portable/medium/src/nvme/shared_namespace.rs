use super::identify::{NVM, bits, bytes};
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

/// The types of Namespace Identification Descriptors (figure 277).
mod descriptor {
    pub(super) const EUI64: u32 = 1;
    pub(super) const NGUID: u32 = 2;
    pub(super) const UUID: u32 = 3;
    pub(super) const COMMAND_SET: u32 = 4;
}

/// Adds the identifiers from a list of Namespace Identification Descriptors, which may include more
/// than Identify Namespace.
pub(super) fn add_listed(identifiers: &mut Identifiers, answer: &Shared<'_>) {
    for (kind, length, at) in descriptors(answer) {
        match (kind, length) {
            (descriptor::EUI64, 8) => identifiers.eui64 = bytes(answer, at),
            (descriptor::NGUID, 16) => identifiers.nguid = bytes(answer, at),
            (descriptor::UUID, 16) => identifiers.uuid = bytes(answer, at),
            _ => {}
        }
    }
}

/// The command set (CSI) of a namespace with this list of descriptors. Without such a descriptor it
/// is NVM's.
pub(super) fn command_set(answer: &Shared<'_>) -> u8 {
    let mut descriptors = descriptors(answer);
    let found =
        descriptors.find(|&(kind, length, _)| (kind, length) == (descriptor::COMMAND_SET, 1));
    let [set] = found.map_or([NVM], |(.., at)| bytes(answer, at));
    set
}

/// The descriptors of a list: type, length, and the place of the bytes. Two reserved bytes come
/// before these. A length of 0 ends the list.
fn descriptors(answer: &Shared<'_>) -> impl Iterator<Item = (u32, usize, usize)> {
    const HEADER: usize = 4;
    let mut at = 0;
    core::iter::from_fn(move || {
        if at + HEADER > Shared::PAGE_BYTES {
            return None;
        }
        let (kind, length) = (bits(answer, at, 8), bits(answer, at + 1, 8) as usize);
        let bytes_at = at + HEADER;
        at = bytes_at + length;
        (length != 0 && at <= Shared::PAGE_BYTES).then_some((kind, length, bytes_at))
    })
}

/// The subsystem's name and the controller's number in Identify Controller (figure 275).
pub(super) fn subsystem(answer: &Shared<'_>) -> ([u8; NAME_BYTES], u16) {
    #[allow(clippy::cast_possible_truncation, reason = "16 bits were asked for")]
    let controller = bits(answer, 78, 16) as u16;
    (bytes(answer, 768), controller)
}
