use core::mem;

use arrayvec::ArrayVec;
use poorwill_memory::{PAGE_BYTES, Page};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The head of a section, before its payload.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Head {
    owner: u32,
    version: u16,
    number: u16,
    payload_bytes: u64,
}

const HEAD_BYTES: usize = size_of::<Head>();

/// The alignment of sections in bytes, so that payloads can be read as words.
const ALIGN: usize = 8;

/// The most sections of a machine's state: more than its harts, controllers and devices
/// need.
pub const MAX_STATE_SECTIONS: usize = 64;

/// The numbers that one owner's sections have in each domain. The machine has those of domain 0.
const DOMAIN_NUMBERS: u16 = 256;

/// The number, among all sections of an owner, of one of a domain's.
fn number_in(domain: u8, number: u16) -> u16 {
    debug_assert!(domain == 0 || number < DOMAIN_NUMBERS);
    u16::from(domain) * DOMAIN_NUMBERS + number
}

/// The reason why a section cannot be written, or a state cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// The room for the machine's state is used up.
    #[error(
        "the machine's state does not fit: section {owner:#x} needs {needed} bytes, {left} are left"
    )]
    NoRoom {
        /// The section's owner.
        owner: u32,
        /// In bytes.
        needed: usize,
        /// In bytes.
        left: usize,
    },
    /// A section extends past the end of the state, or has no valid head.
    #[error("the section at byte {0} of the machine's state is malformed")]
    Malformed(usize),
    /// There are more sections than [`MAX_STATE_SECTIONS`].
    #[error("the machine's state has more than {MAX_STATE_SECTIONS} sections")]
    TooMany,
    /// Two sections have the same owner and number.
    #[error("the machine's state has section {owner:#x} {number} twice")]
    Twice {
        /// Their owner.
        owner: u32,
        /// Their number.
        number: u16,
    },
    /// The owner does not accept the payload.
    #[error("section {owner:#x} has {found} bytes of version {version}: not a known layout")]
    Payload {
        /// Owner of the section.
        owner: u32,
        /// Version of the section.
        version: u16,
        /// The length of the payload in bytes.
        found: usize,
    },
}

/// Writes the sections of a machine's state.
#[derive(Debug)]
pub struct StateWriter<'a> {
    bytes: &'a mut [u8],
    used: usize,
    domain: u8,
}

impl<'a> StateWriter<'a> {
    /// Clears `pages` and starts an empty state in them.
    pub fn new(pages: &'a mut [Page]) -> Self {
        let bytes = pages.as_mut_bytes();
        bytes.fill(0);
        StateWriter {
            bytes,
            used: 0,
            domain: 0,
        }
    }

    /// Does `job`, whose sections are those of the domain with this index. An owner numbers its
    /// sections below 256 in each domain but the first.
    pub fn in_domain<R>(&mut self, domain: u8, job: impl FnOnce(&mut Self) -> R) -> R {
        let outer = mem::replace(&mut self.domain, domain);
        let result = job(self);
        self.domain = outer;
        result
    }

    /// Appends a section with its owner, its number among the owner's sections in this domain, the
    /// version of its layout, and its payload.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`]: nothing was written.
    pub fn section<T>(
        &mut self,
        owner: u32,
        number: u16,
        version: u16,
        payload: &T,
    ) -> Result<(), StateError>
    where
        T: IntoBytes + Immutable + ?Sized,
    {
        let payload = payload.as_bytes();
        let left = self.bytes.len() - self.used;
        let needed = HEAD_BYTES + payload.len().next_multiple_of(ALIGN);
        if needed > left {
            return Err(StateError::NoRoom {
                owner,
                needed,
                left,
            });
        }
        let head = Head {
            owner,
            version,
            number: number_in(self.domain, number),
            payload_bytes: payload.len() as u64,
        };
        let room = &mut self.bytes[self.used..self.used + needed];
        room[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        room[HEAD_BYTES..HEAD_BYTES + payload.len()].copy_from_slice(payload);
        self.used += needed;
        Ok(())
    }

    /// Begins a section whose payload is written in pieces. The section becomes valid when it
    /// [ends](SectionWriter::end).
    pub fn begin(&mut self, owner: u32, number: u16, version: u16) -> SectionWriter<'_, 'a> {
        SectionWriter {
            owner,
            number: number_in(self.domain, number),
            state: self,
            version,
            length: 0,
        }
    }

    /// Ends the state. Returns its length in bytes, for
    /// [`crate::SaveRequest::state_bytes`].
    #[must_use]
    pub fn finish(self) -> u64 {
        self.used as u64
    }
}

/// Writes a section whose payload is written in pieces.
#[derive(Debug)]
pub struct SectionWriter<'w, 'a> {
    state: &'w mut StateWriter<'a>,
    owner: u32,
    number: u16,
    version: u16,
    /// Bytes of payload that were written.
    length: usize,
}

impl SectionWriter<'_, '_> {
    /// Appends a piece of the payload.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`]: nothing was appended.
    pub fn append<T>(&mut self, piece: &T) -> Result<(), StateError>
    where
        T: IntoBytes + Immutable + ?Sized,
    {
        let piece = piece.as_bytes();
        let begin = HEAD_BYTES + self.length;
        let room = &mut self.state.bytes[self.state.used..];
        let (needed, left) = ((begin + piece.len()).next_multiple_of(ALIGN), room.len());
        if needed > left {
            return Err(StateError::NoRoom {
                owner: self.owner,
                needed,
                left,
            });
        }
        room[begin..begin + piece.len()].copy_from_slice(piece);
        self.length += piece.len();
        Ok(())
    }

    /// Ends the section.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`] if not even an empty section fits.
    pub fn end(mut self) -> Result<(), StateError> {
        // The head needs room even if the payload is empty.
        self.append::<[u8]>(&[])?;
        let head = Head {
            owner: self.owner,
            version: self.version,
            number: self.number,
            payload_bytes: self.length as u64,
        };
        let room = &mut self.state.bytes[self.state.used..];
        room[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        self.state.used += HEAD_BYTES + self.length.next_multiple_of(ALIGN);
        Ok(())
    }
}

/// One section of a machine's state. Only its owner knows the meaning of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSection<'a> {
    /// A number that identifies the part of the firmware that wrote it.
    pub owner: u32,
    /// Its number among the owner's sections, in all domains.
    pub number: u16,
    /// The version of its layout.
    pub version: u16,
    /// The contents, aligned to 8 bytes.
    pub payload: &'a [u8],
}

impl<'a> StateSection<'a> {
    /// The payload as a value or slice of type `T`, in the layout of `version`.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] if version or length differ.
    pub fn read<T>(&self, version: u16) -> Result<&'a T, StateError>
    where
        T: FromBytes + KnownLayout + Immutable + ?Sized,
    {
        T::ref_from_bytes(self.payload)
            .ok()
            .filter(|_| self.version == version)
            .ok_or_else(|| self.refuse())
    }

    /// The error for a payload that its owner does not accept.
    #[must_use]
    pub fn refuse(&self) -> StateError {
        StateError::Payload {
            owner: self.owner,
            version: self.version,
            found: self.payload.len(),
        }
    }
}

/// The sections of a machine's state. Their owners take them one by one; sections that
/// are left at the end have no known owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSections<'a> {
    left: ArrayVec<StateSection<'a>, MAX_STATE_SECTIONS>,
    domain: u8,
}

impl<'a> StateSections<'a> {
    /// Parses the first `state_bytes` bytes of `pages`, whose digest was verified.
    ///
    /// # Errors
    ///
    /// [`StateError::Malformed`], [`StateError::TooMany`], [`StateError::Twice`].
    pub fn parse(pages: &'a [Page], state_bytes: u64) -> Result<Self, StateError> {
        let bytes = pages.as_bytes();
        debug_assert!(state_bytes <= pages.len() as u64 * PAGE_BYTES);
        let length = usize::try_from(state_bytes)
            .unwrap_or(bytes.len())
            .min(bytes.len());
        let mut left = ArrayVec::<StateSection<'a>, MAX_STATE_SECTIONS>::new();
        let mut used = 0;
        while used < length {
            let (section, taken) =
                first(&bytes[used..length]).ok_or(StateError::Malformed(used))?;
            let StateSection { owner, number, .. } = section;
            let is_same = |other: &StateSection<'_>| (other.owner, other.number) == (owner, number);
            if left.iter().any(is_same) {
                return Err(StateError::Twice { owner, number });
            }
            left.try_push(section).map_err(|_| StateError::TooMany)?;
            used += taken;
        }
        Ok(StateSections { left, domain: 0 })
    }

    /// Does `job`, which takes the sections of the domain with this index.
    pub fn in_domain<R>(&mut self, domain: u8, job: impl FnOnce(&mut Self) -> R) -> R {
        let outer = mem::replace(&mut self.domain, domain);
        let result = job(self);
        self.domain = outer;
        result
    }

    /// Takes the section with this owner and number in this domain; `None` if there is no such
    /// section.
    pub fn take(&mut self, owner: u32, number: u16) -> Option<StateSection<'a>> {
        let number = number_in(self.domain, number);
        let place = self
            .left
            .iter()
            .position(|section| (section.owner, section.number) == (owner, number))?;
        Some(self.left.remove(place))
    }

    /// Takes the payload of the section with this owner and number, in the layout of `version`;
    /// `None` if there is no such section.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] if version or length differ.
    pub fn take_payload<T>(
        &mut self,
        (owner, version): (u32, u16),
        number: u16,
    ) -> Result<Option<&'a T>, StateError>
    where
        T: FromBytes + KnownLayout + Immutable + ?Sized,
    {
        let section = self.take(owner, number);
        section.map(|section| section.read(version)).transpose()
    }

    /// The sections that are not taken yet.
    #[must_use]
    pub fn left(&self) -> &[StateSection<'a>] {
        &self.left
    }
}

fn first(bytes: &[u8]) -> Option<(StateSection<'_>, usize)> {
    let (head, rest) = Head::ref_from_prefix(bytes).ok()?;
    let length = usize::try_from(head.payload_bytes).ok()?;
    let payload = rest.get(..length)?;
    let padded = length.checked_next_multiple_of(ALIGN)?;
    if rest.len() < padded {
        return None;
    }
    let section = StateSection {
        owner: head.owner,
        number: head.number,
        version: head.version,
        payload,
    };
    Some((section, HEAD_BYTES + padded))
}

#[cfg(test)]
mod tests;
