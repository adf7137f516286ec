//! Sealing: authenticated encryption of an image, piece by piece.
//!
//! Each part of an image is its own message under XChaCha20-Poly1305
//! (draft-irtf-cfrg-xchacha-03, RFC 8439): several harts can seal and open parts in any
//! order. The cipher and the authenticator are RustCrypto's. This module applies
//! them to pages that are scattered in memory, which no ready-made AEAD supports.

mod cipher;
mod cut_key;
mod key;
mod words_mac;

pub(crate) use cipher::{Cipher, CipherDirection, Message, Part};
pub use cut_key::CutKey;
pub use key::{Seal, SealError, SealingKey, Trust};
