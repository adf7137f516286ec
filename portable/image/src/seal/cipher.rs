//! Applies the cipher and the authenticator to pages.

use core::fmt;
use core::sync::atomic::Ordering;

use chacha20::cipher::KeyIvInit;
use chacha20::cipher::array::Array;
use chacha20::rand_core::block::Generator;
use chacha20::variants::Ietf;
use chacha20::{ChaChaCore, R20, hchacha};
use poly1305::universal_hash::{KeyInit, UniversalHash};
use poly1305::{Block, Poly1305};
use poorwill_memory::{Page, PageWords};
use zerocopy::IntoBytes;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::key::SealingKey;
use crate::format::digest::Digest;
use crate::format::seal_mark::Salt;

/// The messages of one image. Each message's number is the last 8 bytes of its nonce; a piece of
/// page data has its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Header,
    State,
    Map,
    Digests,
    Free,
    StridedFills,
    Piece(u64),
}

impl Part {
    const fn number(self) -> u64 {
        /// A number that no piece has, since no image has this number of pieces.
        const NO_PIECE: u64 = 1 << 63;
        match self {
            Part::Header => NO_PIECE,
            Part::State => NO_PIECE + 1,
            Part::Map => NO_PIECE + 2,
            Part::Digests => NO_PIECE + 3,
            Part::Free => NO_PIECE + 4,
            Part::StridedFills => NO_PIECE + 5,
            Part::Piece(number) => number,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CipherDirection {
    /// For a save: encrypts pages of OS memory for the image.
    Seal,
    /// For a load: decrypts pages of the image in OS memory.
    Open,
}

/// The cipher of one image. XChaCha20 derives this key from the machine's key and the
/// first 16 bytes of the nonce, which are constant within an image.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Cipher([u8; 32]);

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    pub(crate) fn new(key: &SealingKey, generation: u64, salt: Salt) -> Cipher {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&generation.to_le_bytes());
        nonce[8..].copy_from_slice(&salt.0);
        Cipher(hchacha::<R20>(&Array(key.0), &Array(nonce)).0)
    }

    /// The message of a part, from page `page` of the part on, for [`Message::unseal`].
    pub(crate) fn message_from(&self, part: Part, page: u32) -> Message {
        let mut message = self.message(part);
        message.stream.set_block_pos(1 + page * PAGE_BLOCKS);
        message
    }

    pub(crate) fn message(&self, part: Part) -> Message {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&part.number().to_le_bytes());
        let mut stream = ChaChaCore::new(&Array(self.0), &Array(nonce));
        // Block 0 is the authenticator's key, and the text starts at block 1.
        let mut first: [u32; STREAM_WORDS] = [0; STREAM_WORDS];
        stream.generate(&mut first);
        stream.set_block_pos(1);
        let (mac_key, _) = first.as_bytes().split_first_chunk().expect("32 bytes");
        let mac = Poly1305::new(&Array(*mac_key));
        first.zeroize();
        Message {
            stream,
            mac,
            text_bytes: 0,
        }
    }

    /// Seals or opens consecutive pages in place. Returns the tag of the sealed text.
    pub(crate) fn pages(&self, part: Part, way: CipherDirection, pages: &mut [Page]) -> Digest {
        let mut message = self.message(part);
        message.pages(way, pages);
        message.finish()
    }

    /// The tag of a page that stays plain.
    pub(crate) fn authenticate(&self, part: Part, page: &Page) -> Digest {
        let mut message = self.message(part);
        message
            .mac
            .update(Block::slice_as_chunks(page.as_bytes()).0);
        message.end(size_of::<Page>() as u64)
    }
}

/// The 64-byte blocks of key stream for a page.
const PAGE_BLOCKS: u32 = 64;

const _: () = assert!(size_of::<Page>() == PAGE_BLOCKS as usize * 64);

/// The words of key stream that the cipher computes at a time.
const STREAM_WORDS: usize = 64;

/// A chunk of text of the same length.
type Chunk = [u64; STREAM_WORDS / 2];

pub(crate) struct Message {
    stream: ChaChaCore<R20, Ietf>,
    mac: Poly1305,
    text_bytes: u64,
}

impl Message {
    pub(crate) fn pages(&mut self, way: CipherDirection, pages: &mut [Page]) {
        for page in pages {
            for chunk in page.0.as_chunks_mut().0 {
                self.chunk(way, chunk);
            }
        }
    }

    /// Seals or opens in place a page that harts share.
    pub(crate) fn page(&mut self, way: CipherDirection, words: &PageWords) {
        for words in words.as_chunks::<{ STREAM_WORDS / 2 }>().0 {
            // The copy is local, so the compiler sees aligned words that no other hart writes.
            let mut chunk: Chunk = core::array::from_fn(|n| words[n].load(Ordering::Relaxed));
            self.chunk(way, &mut chunk);
            for (word, value) in words.iter().zip(chunk) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Adds a page's sealed text to the tag, and does not change the page.
    pub(crate) fn authenticate(&mut self, words: &PageWords) {
        for words in words.as_chunks::<{ STREAM_WORDS / 2 }>().0 {
            let chunk: Chunk = core::array::from_fn(|n| words[n].load(Ordering::Relaxed));
            self.mac.update(Block::slice_as_chunks(chunk.as_bytes()).0);
            self.text_bytes += size_of::<Chunk>() as u64;
        }
    }

    /// Opens a page without authentication: the caller has verified the tag, or has just
    /// sealed the page.
    pub(crate) fn unseal(&mut self, words: &PageWords) {
        for words in words.as_chunks::<{ STREAM_WORDS / 2 }>().0 {
            let mut stream = [0; STREAM_WORDS];
            self.stream.generate(&mut stream);
            for (word, pair) in words.iter().zip(stream.as_chunks::<2>().0) {
                let value = word.load(Ordering::Relaxed) ^ join(*pair);
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    // Without inlining, the key stream goes through memory between the two crates. That
    // costs an eighth more instructions, mostly loads and stores (`poorwill bench seal`).
    #[inline(always)]
    fn chunk(&mut self, way: CipherDirection, chunk: &mut Chunk) {
        if way == CipherDirection::Open {
            self.mac.update(Block::slice_as_chunks(chunk.as_bytes()).0);
        }
        let mut stream = [0; STREAM_WORDS];
        self.stream.generate(&mut stream);
        for (word, pair) in chunk.iter_mut().zip(stream.as_chunks::<2>().0) {
            *word ^= join(*pair);
        }
        if way == CipherDirection::Seal {
            self.mac.update(Block::slice_as_chunks(chunk.as_bytes()).0);
        }
        self.text_bytes += size_of::<Chunk>() as u64;
    }

    pub(crate) fn finish(self) -> Digest {
        self.end(0)
    }

    fn end(mut self, plain_bytes: u64) -> Digest {
        let mut lengths = Block::default();
        lengths[..8].copy_from_slice(&plain_bytes.to_le_bytes());
        lengths[8..].copy_from_slice(&self.text_bytes.to_le_bytes());
        self.mac.update(&[lengths]);
        let tag = self.mac.finalize();
        Digest::from_bytes(tag.0)
    }
}

fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use std::vec::Vec;

    use chacha20poly1305::aead::{Aead, Payload};
    use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
    use poorwill_memory::fake::FakeMemory;
    use proptest::prelude::*;

    use super::*;

    /// The nonce that docs/image-format.md gives a part.
    fn nonce(generation: u64, salt: Salt, number: u64) -> XNonce {
        let mut nonce = [0; 24];
        nonce[..8].copy_from_slice(&generation.to_le_bytes());
        nonce[8..16].copy_from_slice(&salt.0);
        nonce[16..].copy_from_slice(&number.to_le_bytes());
        nonce.into()
    }

    /// The reference: text and tag, one after the other.
    fn reference(key: [u8; 32], nonce: &XNonce, aad: &[u8], msg: &[u8]) -> Vec<u8> {
        let cipher = XChaCha20Poly1305::new(&key.into());
        cipher.encrypt(nonce, Payload { msg, aad }).unwrap()
    }

    fn pages(seed: u64, count: usize) -> Vec<Page> {
        (0..count as u64)
            .map(|page| {
                Page(core::array::from_fn(|word| {
                    (seed + page).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ word as u64)
                }))
            })
            .collect()
    }

    /// The vector of draft-irtf-cfrg-xchacha-03, A.3.1. Its nonce has another layout, and its
    /// text is not a page, so it checks the reference, and the reference checks our code.
    #[test]
    fn the_reference_gives_the_published_vector() {
        let key: [u8; 32] = core::array::from_fn(|n| 0x80 + n as u8);
        let nonce: [u8; 24] = core::array::from_fn(|n| 0x40 + n as u8);
        let aad = [
            0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7,
        ];
        let text = b"Ladies and Gentlemen of the class of '99: If I could offer you \
                     only one tip for the future, sunscreen would be it.";
        let sealed = reference(key, &nonce.into(), &aad, text);
        assert_eq!(
            sealed[..8],
            [0xbd, 0x6d, 0x17, 0x9d, 0x3e, 0x83, 0xd4, 0x3b]
        );
        assert_eq!(
            sealed[text.len()..],
            [
                0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79, 0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a,
                0xcf, 0x49
            ]
        );
    }

    #[test]
    fn known_answers() {
        let key = SealingKey::new(core::array::from_fn(|n| n as u8));
        assert_eq!(
            std::format!("{}", key.id()),
            "161dd12871c237de57fab721ec8bfa4e"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn pages_match_the_reference(
            key: [u8; 32], generation: u64, salt: [u8; 8], piece in 0u64..1 << 50,
            seed: u64, count in 0usize..5,
        ) {
            let salt = Salt(salt);
            let plain = pages(seed, count);
            let parts = [
                (Part::Piece(piece), piece),
                (Part::Header, 1 << 63),
                (Part::State, (1 << 63) + 1),
                (Part::Map, (1 << 63) + 2),
                (Part::Digests, (1 << 63) + 3),
            ];
            let cipher = Cipher::new(&SealingKey::new(key), generation, salt);
            for (part, number) in parts {
                let nonce = nonce(generation, salt, number);
                let wanted = reference(key, &nonce, &[], plain.as_bytes());
                let mut sealed = plain.clone();
                let tag = cipher.pages(part, CipherDirection::Seal, &mut sealed);
                prop_assert_eq!([sealed.as_bytes(), &tag.to_bytes()].concat(), wanted);
                prop_assert_eq!(cipher.pages(part, CipherDirection::Open, &mut sealed), tag);
                prop_assert!(sealed == plain);
            }
        }

        #[test]
        fn scattered_pages_match_consecutive_ones(key: [u8; 32], seed: u64) {
            let cipher = Cipher::new(&SealingKey::new(key), 7, Salt([3; 8]));
            let plain = pages(seed, 4);
            let mut memory = FakeMemory::new(&[1, 2, 1]);
            for (index, page) in plain.iter().enumerate() {
                memory.set(index as u64, page);
            }
            let mut sealed = plain.clone();
            let tag = cipher.pages(Part::Piece(9), CipherDirection::Seal, &mut sealed);
            let os = memory.os();
            let each = |mut act: std::boxed::Box<dyn FnMut(&PageWords) + '_>| {
                os.iter().for_each(|(_, page)| act(os.words(page)));
            };
            let mut message = cipher.message(Part::Piece(9));
            each(std::boxed::Box::new(|words| message.page(CipherDirection::Seal, words)));
            prop_assert_eq!(message.finish(), tag);
            let mut message = cipher.message(Part::Piece(9));
            each(std::boxed::Box::new(|words| message.authenticate(words)));
            prop_assert_eq!(message.finish(), tag);
            let mut message = cipher.message(Part::Piece(9));
            each(std::boxed::Box::new(|words| message.unseal(words)));
            prop_assert!(memory.contents() == plain);
        }

        #[test]
        fn the_headers_tag_matches_the_reference(key: [u8; 32], generation: u64, seed: u64) {
            let salt = Salt([9; 8]);
            let page = pages(seed, 1).remove(0);
            let cipher = Cipher::new(&SealingKey::new(key), generation, salt);
            let wanted = reference(key, &nonce(generation, salt, 1 << 63), page.as_bytes(), &[]);
            let tag = cipher.authenticate(Part::Header, &page);
            prop_assert_eq!(&tag.to_bytes()[..], &wanted[..]);
        }
    }
}
