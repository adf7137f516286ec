//! Sealing: authenticated encryption of an image, piece by piece.
//!
//! Every part of an image is a message of its own under XChaCha20-Poly1305
//! (draft-irtf-cfrg-xchacha-03, RFC 8439), so that several harts can seal and
//! open parts in any order. The cipher and the authenticator are RustCrypto's;
//! what is here joins them over pages that lie scattered in memory, which no
//! ready-made AEAD takes.

mod cipher;
mod cut_key;
mod key;
mod words_mac;

pub(crate) use cipher::{Cipher, CipherDirection, Message, Part};
pub use cut_key::CutKey;
pub use key::{Seal, SealError, SealingKey, Trust};
