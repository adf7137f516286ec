//! The items in the map, as bytes.

use zeroize::Zeroizing;

use crate::key::{KEY_BYTES, Key, Secret};

/// The newest version of the vault that this crate reads. It writes this version only
/// into a vault that has counted cuts, so that older firmware can read other vaults.
pub const VAULT_VERSION: u16 = 2;
/// The oldest version that this crate reads.
pub const OLDEST_VAULT_VERSION: u16 = 1;
/// The epoch of a new vault's first half.
pub(crate) const FIRST_EPOCH: u64 = 1;
pub(crate) const MAGIC: [u8; 8] = *b"PWVAULT\0";

pub(crate) const TAG_HEADER: u8 = 1;
pub(crate) const TAG_KEY: u8 = 2;
pub(crate) const TAG_COUNT: u8 = 3;
pub(crate) const TAG_KEPT: u8 = 4;
/// Only since version 2.
pub(crate) const TAG_CUT: u8 = 5;

/// The first item of a half: the magic, the version and the epoch.
pub(crate) const HEADER_BYTES: usize = 18;
pub(crate) const KEY_ITEM_BYTES: usize = 1 + KEY_BYTES;
pub(crate) const COUNT_BYTES: usize = 9;

const KEY_IS_PRESENT: u8 = 1;
const KEY_IS_ERASED: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Epoch {
        /// The number of this half among all halves that were begun, from 1. The higher number is
        /// newer.
        epoch: u64,
        version: u16,
    },
    /// An unknown version of the vault.
    Unknown(u16),
}

pub(crate) fn encode_header(epoch: u64, version: u16) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&version.to_le_bytes());
    bytes[10..].copy_from_slice(&epoch.to_le_bytes());
    bytes
}

/// `None`: not a vault's header. Magic and version keep their offsets in all versions.
pub(crate) fn decode_header(bytes: &[u8]) -> Option<Header> {
    let (version, rest) = bytes.strip_prefix(&MAGIC)?.split_first_chunk()?;
    match u16::from_le_bytes(*version) {
        version @ OLDEST_VAULT_VERSION..=VAULT_VERSION => Some(Header::Epoch {
            epoch: u64::from_le_bytes(rest.try_into().ok()?),
            version,
        }),
        other => Some(Header::Unknown(other)),
    }
}

/// The bytes of the item; `None` for a missing key, which has no item.
pub(crate) fn encode_secret(secret: &Secret) -> Option<Zeroizing<[u8; KEY_ITEM_BYTES]>> {
    let mut bytes = Zeroizing::new([0; KEY_ITEM_BYTES]);
    match secret {
        Secret::Missing => return None,
        Secret::Present(key) => {
            bytes[0] = KEY_IS_PRESENT;
            bytes[1..].copy_from_slice(key.bytes());
        }
        Secret::Erased => bytes[0] = KEY_IS_ERASED,
    }
    Some(bytes)
}

pub(crate) fn decode_secret(bytes: &[u8]) -> Option<Secret> {
    let (&kind, rest) = bytes.split_first()?;
    let key: &[u8; KEY_BYTES] = rest.try_into().ok()?;
    match kind {
        KEY_IS_PRESENT => Some(Secret::Present(Key::new(key))),
        KEY_IS_ERASED if *key == [0; KEY_BYTES] => Some(Secret::Erased),
        _ => None,
    }
}

/// The latest generation and its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) generation: u64,
    pub(crate) stage: Stage,
}

/// The stages of a generation, in this order only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The number is reserved for a sleep.
    Reserved,
    /// Its image may wake.
    Armed,
    /// Its image may not wake.
    Spent,
}

impl Count {
    /// The count of a machine that never slept.
    pub(crate) const NEW: Count = Count {
        generation: 0,
        stage: Stage::Spent,
    };

    pub(crate) fn is_armed(self) -> bool {
        self.stage == Stage::Armed
    }

    pub(crate) fn encode(self) -> [u8; COUNT_BYTES] {
        let mut bytes = [0; COUNT_BYTES];
        bytes[0] = match self.stage {
            Stage::Reserved => 1,
            Stage::Armed => 2,
            Stage::Spent => 3,
        };
        bytes[1..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&stage, generation) = bytes.split_first()?;
        let stage = match stage {
            1 => Stage::Reserved,
            2 => Stage::Armed,
            3 => Stage::Spent,
            _ => return None,
        };
        Some(Count {
            generation: u64::from_le_bytes(generation.try_into().ok()?),
            stage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_these_bytes() {
        assert_eq!(
            encode_header(0x0102_0304_0506_0708, 1),
            *b"PWVAULT\0\x01\0\x08\x07\x06\x05\x04\x03\x02\x01"
        );
        let key = Secret::Present(Key::new(&[0xa5; KEY_BYTES]));
        let bytes = encode_secret(&key).unwrap();
        assert_eq!(bytes[0], 1);
        assert_eq!(bytes[1..], [0xa5; KEY_BYTES]);
        let bytes = encode_secret(&Secret::Erased).unwrap();
        assert_eq!(bytes[0], 2);
        assert_eq!(bytes[1..], [0; KEY_BYTES]);
        for (stage, byte) in [(Stage::Reserved, 1), (Stage::Armed, 2), (Stage::Spent, 3)] {
            let count = Count {
                generation: 0x1122,
                stage,
            };
            assert_eq!(count.encode(), [byte, 0x22, 0x11, 0, 0, 0, 0, 0, 0]);
            assert_eq!(Count::decode(&count.encode()), Some(count));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(
            decode_header(&encode_header(7, 2)),
            Some(Header::Epoch {
                epoch: 7,
                version: 2
            }),
            "a good one"
        );
        let newer = encode_header(7, 3);
        assert_eq!(decode_header(&newer), Some(Header::Unknown(3)));
        assert_eq!(decode_header(&newer[..10]), Some(Header::Unknown(3)));
        assert_eq!(decode_header(&encode_header(7, 1)[..17]), None);
        assert_eq!(decode_header(b"PWVAULTX\x01\0\0\0\0\0\0\0\0\0"), None);
        assert!(decode_secret(&[1; KEY_BYTES]).is_none(), "short");
        assert!(decode_secret(&[3; KEY_ITEM_BYTES]).is_none(), "kind");
        assert!(decode_secret(&[2; KEY_ITEM_BYTES]).is_none(), "not zero");
        assert!(decode_secret(&[]).is_none());
        assert_eq!(Count::decode(&[0; COUNT_BYTES]), None);
        assert_eq!(Count::decode(&[1; COUNT_BYTES - 1]), None);
        assert_eq!(Count::decode(&[]), None);
    }
}
