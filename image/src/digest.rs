use crate::checksum::Hasher;

/// What a part of an image is recognised by: its tag where it is sealed, its
/// checksum and zeros where it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub(crate) [u64; 2]);

impl Digest {
    pub(crate) const ZERO: Digest = Digest([0; 2]);

    pub(crate) const fn of_checksum(checksum: u64) -> Digest {
        Digest([checksum, 0])
    }

    pub(crate) fn of(hasher: &Hasher) -> Digest {
        Digest::of_checksum(hasher.finish())
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Digest {
        let (words, _) = bytes.as_chunks();
        Digest([0, 1].map(|word: usize| u64::from_le_bytes(words[word])))
    }

    /// The 16 bytes that stand for it in an image.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }
}
