//! Authenticates the record of a cut.

use core::fmt;

use chacha20::cipher::array::Array;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20::{ChaCha20, R20, hchacha};
use zerocopy::IntoBytes;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::key::SealingKey;
use super::words_mac::WordsMac;
use crate::format::digest::Digest;

/// The key of one cut's record. It does not reveal the machine's key or the keys of other
/// cuts.
///
/// It authenticates messages with XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): each
/// message is associated data without a text. Its base key is derived from the machine's
/// key for this use only. The nonce is the cut's number, 8 zeros, and the message's
/// number. This struct holds the key after the first 16 bytes of the nonce.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct CutKey([u8; 32]);

impl CutKey {
    /// The key of cut `number`.
    #[must_use]
    pub fn new(key: &SealingKey, number: u64) -> Self {
        // No generation reaches the value of these letters, so no image's nonce starts
        // like this.
        let derived = hchacha::<R20>(&Array(key.0), &Array(*b"poorwill cut key"));
        let derived = Zeroizing::new(derived.0);
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        CutKey(hchacha::<R20>(&Array(*derived), &Array(nonce)).0)
    }

    /// The key's bytes, for tests that search memory for them.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The tag of a message whose words come in pieces. Each piece except the last must
    /// have an even number of words. Use each message number for one message only.
    #[must_use]
    pub fn tag<W: AsRef<[u64]>>(
        &self,
        message: u64,
        pieces: impl IntoIterator<Item = W>,
    ) -> Digest {
        let mut mac = self.mac(message);
        let mut bytes = 0;
        for piece in pieces {
            let piece = piece.as_ref();
            bytes += size_of_val(piece) as u64;
            let (pairs, rest) = piece.as_chunks::<2>();
            pairs.iter().for_each(|pair| mac.block(*pair));
            rest.iter().for_each(|last| mac.block([*last, 0]));
        }
        mac.block([bytes, 0]);
        Digest::from_words(mac.finish())
    }

    /// The authenticator of a message: the start of its key stream is the key.
    fn mac(&self, message: u64) -> WordsMac {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&message.to_le_bytes());
        let mut key = Zeroizing::new([0u64; 4]);
        ChaCha20::new(&Array(self.0), &Array(nonce)).apply_keystream(key.as_mut_bytes());
        WordsMac::new(*key)
    }
}

impl fmt::Debug for CutKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CutKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use chacha20poly1305::aead::{Aead, Payload};
    use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_not_printed() {
        let key = CutKey::new(&SealingKey::new([0x41; 32]), 1);
        assert_eq!(format!("{key:?}"), "CutKey(..)");
    }

    proptest! {
        #[test]
        fn tags_match_the_reference(
            key: [u8; 32], number: u64, message: u64,
            words in prop::collection::vec(any::<u64>(), 0..200), pair in 0usize..100,
        ) {
            let derived = hchacha::<R20>(&Array(key), &Array(*b"poorwill cut key")).0;
            let mut nonce = [0; 24];
            nonce[..8].copy_from_slice(&number.to_le_bytes());
            nonce[16..].copy_from_slice(&message.to_le_bytes());
            let reference = XChaCha20Poly1305::new(&derived.into());
            let payload = Payload { msg: &[], aad: words.as_bytes() };
            let tag = reference.encrypt(&XNonce::from(nonce), payload).unwrap();
            let own = CutKey::new(&SealingKey::new(key), number).tag(message, words.chunks(2 * pair + 2));
            prop_assert_eq!(&own.to_bytes()[..], &tag[..]);
        }
    }
}
