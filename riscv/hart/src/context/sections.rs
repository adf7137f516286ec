//! A hart's sections in an image: bytes with a tag and a version.

use zerocopy::{FromBytes, IntoBytes};

use arrayvec::ArrayVec;
use thiserror::Error;

use super::HartContext;
use super::access::{FileWords, FloatRegisters};
use super::csr::{Csr, CsrValue};
use super::execution::Execution;
use super::vector::VectorRegisters;

/// Tags: four letters, the first in the lowest byte.
pub mod section {
    /// The OS's CSRs.
    pub const CSRS: u32 = u32::from_le_bytes(*b"CSRS");
    /// The floating-point registers.
    pub const FLOAT: u32 = u32::from_le_bytes(*b"FLOT");
    /// The vector registers.
    pub const VECTOR: u32 = u32::from_le_bytes(*b"VECT");
    /// The S-level interrupt file.
    pub const FILE: u32 = u32::from_le_bytes(*b"IMSI");
    /// State of a stopped OS (`Execution`). Only cuts have it, no image.
    pub const EXECUTION: u32 = u32::from_le_bytes(*b"EXEC");
    /// All tags that an image may have.
    pub const TAGS: [u32; 4] = [CSRS, FLOAT, VECTOR, FILE];
    /// Version of all sections but the CSRs'.
    pub const VERSION: u16 = 1;
    /// Version of the CSRs' section; version 1 is still read. Version 2 has more CSRs. In version
    /// 2, an absent [`FLOAT`] or [`VECTOR`] means that the hart lacks the unit; in version 1, that
    /// the OS had turned it off.
    pub const CSRS_VERSION: u16 = 2;
}

use section::{CSRS_VERSION, VERSION};

/// A section of a hart's context, as in an image.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Tag of the section.
    pub tag: u32,
    /// Version of its layout.
    pub version: u16,
    /// Contents: little-endian words, except that `VECT` ends with the registers' bytes.
    pub bytes: &'a [u8],
}

/// A section that this version cannot read.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SectionError {
    #[error(
        "hart section {tag:#x}, version {version}: unknown version, or wrong size ({found} bytes)"
    )]
    Payload {
        tag: u32,
        version: u16,
        /// Length in bytes.
        found: usize,
    },
    #[error("the machine's state has CSR {0:#x}, which this version does not know")]
    UnknownCsr(u64),
}

impl HartContext {
    /// The sections of the context.
    pub fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        let of = |tag, bytes| Section {
            tag,
            version: if tag == section::CSRS {
                CSRS_VERSION
            } else {
                VERSION
            },
            bytes,
        };
        let execution = self.execution.as_ref();
        let float = self.float.as_ref();
        let vector = self.vector.as_ref();
        let file = self.file.as_ref();
        [
            execution.map(|execution| of(section::EXECUTION, execution.as_bytes())),
            Some(of(section::CSRS, self.csrs.as_bytes())),
            float.map(|registers| of(section::FLOAT, registers.as_bytes())),
            vector.map(|registers| of(section::VECTOR, registers.used_bytes())),
            file.map(|words| of(section::FILE, words.as_bytes())),
        ]
        .into_iter()
        .flatten()
    }

    /// Reads a section; `false` if it is not a hart's.
    ///
    /// # Errors
    ///
    /// [`SectionError`]; the context must not be used then.
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
        let is_ours = tag == section::EXECUTION || section::TAGS.contains(&tag);
        let newest = if tag == section::CSRS {
            CSRS_VERSION
        } else {
            VERSION
        };
        if is_ours && !(VERSION..=newest).contains(&version) {
            return Err(refused);
        }
        match tag {
            section::EXECUTION => {
                let execution = Execution::read_from_bytes(bytes);
                self.execution = Some(execution.map_err(|_| refused)?);
            }
            section::CSRS => self.csrs = read_csrs(bytes, refused)?,
            section::FLOAT => {
                let registers = FloatRegisters::read_from_bytes(bytes);
                self.float = Some(registers.map_err(|_| refused)?);
            }
            section::VECTOR => {
                self.vector = Some(VectorRegisters::from_used(bytes).ok_or(refused)?);
            }
            section::FILE => {
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

/// Splits the bytes into items; `None` if they do not divide evenly, or are too many.
fn items<T: FromBytes, const N: usize>(bytes: &[u8]) -> Option<ArrayVec<T, N>> {
    let chunks = bytes.chunks_exact(size_of::<T>());
    if !chunks.remainder().is_empty() || chunks.len() > N {
        return None;
    }
    chunks.map(|item| T::read_from_bytes(item).ok()).collect()
}
