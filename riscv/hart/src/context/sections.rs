//! What an image has of a hart: sections of bytes, each with a tag and a version.

use zerocopy::{FromBytes, IntoBytes};

use arrayvec::ArrayVec;
use thiserror::Error;

use super::HartContext;
use super::access::{FileWords, FloatRegisters};
use super::csr::{Csr, CsrValue};
use super::vector::VectorRegisters;

/// Tags: four letters, the first in the lowest byte.
mod tag {
    pub(super) const CSRS: u32 = u32::from_le_bytes(*b"CSRS");
    pub(super) const FLOAT: u32 = u32::from_le_bytes(*b"FLOT");
    pub(super) const VECTOR: u32 = u32::from_le_bytes(*b"VECT");
    pub(super) const FILE: u32 = u32::from_le_bytes(*b"IMSI");
}

/// Version of all of them.
const VERSION: u16 = 1;

/// A part of a hart's context, as an image has it.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// What it is.
    pub tag: u32,
    /// Version of its layout.
    pub version: u16,
    /// Its contents: little-endian words, but for `VECT`, which ends in registers'
    /// bytes.
    pub bytes: &'a [u8],
}

/// A section is not what this version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SectionError {
    /// Its version is another, or its length or its layout.
    #[error("record {tag:#x} has {found} bytes, which is not what its version {version} holds")]
    Payload {
        /// Its tag.
        tag: u32,
        /// Its version.
        version: u16,
        /// Its length in bytes.
        found: usize,
    },
    /// A CSR that is not known here to be the OS's.
    #[error("the machine's state has CSR {0:#x}, which is not known to this version")]
    UnknownCsr(u64),
}

impl HartContext {
    /// What an image is to keep: a section for everything that the hart has.
    pub fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        let section = |tag, bytes| Section {
            tag,
            version: VERSION,
            bytes,
        };
        let float = self.float.as_ref();
        let vector = self.vector.as_ref();
        let file = self.file.as_ref();
        [
            Some(section(tag::CSRS, self.csrs.as_bytes())),
            float.map(|registers| section(tag::FLOAT, registers.as_bytes())),
            vector.map(|registers| section(tag::VECTOR, registers.used_bytes())),
            file.map(|words| section(tag::FILE, words.as_bytes())),
        ]
        .into_iter()
        .flatten()
    }

    /// Takes a section of an image in; `false` where it is none of a hart's.
    ///
    /// # Errors
    ///
    /// [`SectionError`]; the context is not to be used then.
    pub fn read(&mut self, section: Section<'_>) -> Result<bool, SectionError> {
        let Section {
            tag,
            version,
            bytes,
        } = section;
        let refused = SectionError::Payload {
            tag,
            version,
            found: bytes.len(),
        };
        let is_ours = matches!(tag, tag::CSRS | tag::FLOAT | tag::VECTOR | tag::FILE);
        if is_ours && version != VERSION {
            return Err(refused);
        }
        match tag {
            tag::CSRS => self.csrs = read_csrs(bytes, refused)?,
            tag::FLOAT => {
                let registers = FloatRegisters::read_from_bytes(bytes);
                self.float = Some(registers.map_err(|_| refused)?);
            }
            tag::VECTOR => {
                self.vector = Some(VectorRegisters::from_used(bytes).ok_or(refused)?);
            }
            tag::FILE => {
                let words: Option<FileWords> = items(bytes);
                self.file = Some(words.ok_or(refused)?);
            }
            _ => {}
        }
        Ok(is_ours)
    }
}

fn read_csrs<const N: usize>(
    bytes: &[u8],
    refused: SectionError,
) -> Result<ArrayVec<CsrValue, N>, SectionError> {
    let csrs: ArrayVec<CsrValue, N> = items(bytes).ok_or(refused)?;
    let unknown = csrs
        .iter()
        .find(|csr| Csr::from_number(csr.number).is_none());
    match unknown {
        Some(csr) => Err(SectionError::UnknownCsr(csr.number)),
        None => Ok(csrs),
    }
}

/// The bytes as a list; `None` where they are no whole number of items, or too many.
fn items<T: FromBytes, const N: usize>(bytes: &[u8]) -> Option<ArrayVec<T, N>> {
    let chunks = bytes.chunks_exact(size_of::<T>());
    if !chunks.remainder().is_empty() || chunks.len() > N {
        return None;
    }
    chunks.map(|item| T::read_from_bytes(item).ok()).collect()
}
