use poorwill_memory::PhysRange;
use thiserror::Error;

use crate::domain::{Domain, Request};
use crate::harts::HartSelection;

/// Bytes of the shortest instruction, and what each is aligned to: harts that run
/// an OS have compressed instructions (IALIGN is 16).
const INSTRUCTION_BYTES: u64 = 2;

/// What a caller claimed and what is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// No instruction of the domain's can be there.
    #[error("{0:#x} is not the domain's to execute")]
    Code(u64),
    /// Bytes that are not the domain's memory throughout.
    #[error("{length} bytes at {high:#x}:{low:#018x} are not the domain's memory")]
    Bytes {
        /// How many.
        length: u64,
        /// The address: its lower 64 bits.
        low: u64,
        /// And what is above them.
        high: u64,
    },
    /// No hart of the domain's.
    #[error("hart {0} is not the domain's")]
    Hart(u64),
    /// A mask of harts, one of which is not the domain's.
    #[error("harts {mask:#x} from {base:#x} on are not all the domain's")]
    Harts {
        /// The mask.
        mask: u64,
        /// The ID of the hart that bit 0 of it names.
        base: u64,
    },
    /// A range of virtual addresses that goes on behind the last one.
    #[error("no {size:#x} bytes begin at {start:#x}")]
    Fence {
        /// Its first address.
        start: u64,
        /// Its bytes.
        size: u64,
    },
    /// The domain may not ask for that.
    #[error("the domain may not ask for {0:?}")]
    Request(Request),
}

/// A physical address at which a domain may execute; only a claim makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeAddress(u64);

impl CodeAddress {
    /// The address.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Bytes of a domain's memory, for it to be read and written for its OS; only a
/// claim makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedBytes {
    address: u64,
    length: u64,
}

impl ClaimedBytes {
    /// The first of them, at most so many.
    #[must_use]
    pub fn first(self, most: u64) -> Self {
        ClaimedBytes {
            length: self.length.min(most),
            ..self
        }
    }

    /// The physical address of the first one.
    #[must_use]
    pub fn address(self) -> u64 {
        self.address
    }

    /// How many they are.
    #[must_use]
    pub fn length(self) -> u64 {
        self.length
    }
}

impl Domain {
    /// A place to execute: where a hart starts, goes on after a suspension, or
    /// wakes. That is memory or flash: SBI asks for a "physical address which is
    /// executable" by S-mode alone (SBI 3.0, tables 9.2 and 13.2).
    ///
    /// # Errors
    ///
    /// [`ClaimError::Code`] when it is odd, or neither the domain's memory nor its flash.
    pub fn executable(&self, address: u64) -> Result<CodeAddress, ClaimError> {
        let is_code = address.is_multiple_of(INSTRUCTION_BYTES)
            && (self.memory.contains(address, INSTRUCTION_BYTES) || self.has_flash(address));
        is_code
            .then_some(CodeAddress(address))
            .ok_or(ClaimError::Code(address))
    }

    /// Whether an instruction at `address` lies in flash of the domain's.
    fn has_flash(&self, address: u64) -> bool {
        let end = address.checked_add(INSTRUCTION_BYTES);
        let holds = |range: &PhysRange| range.contains(address) && end <= Some(range.end);
        end.is_some() && self.flash.iter().any(holds)
    }

    /// Where its next stage starts.
    ///
    /// # Errors
    ///
    /// As [`executable`](Self::executable).
    pub fn entry(&self) -> Result<CodeAddress, ClaimError> {
        self.executable(self.next_stage.address)
    }

    /// `length` bytes of memory at the address whose lower half is `low` and whose
    /// upper half is `high` (as DBCN has them; SBI 3.0, chapter 12). None at all
    /// are the domain's where its memory is, and at its end.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Bytes`].
    pub fn bytes(&self, length: u64, low: u64, high: u64) -> Result<ClaimedBytes, ClaimError> {
        if high != 0 || !self.memory.contains(low, length) {
            return Err(ClaimError::Bytes { length, low, high });
        }
        Ok(ClaimedBytes {
            address: low,
            length,
        })
    }

    /// One hart.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Hart`].
    pub fn hart(&self, id: u64) -> Result<u64, ClaimError> {
        let found = self.harts.contains(id).then_some(id);
        found.ok_or(ClaimError::Hart(id))
    }

    /// The harts that a mask names: bit 0 the one with the ID `base`. A base of all
    /// ones names all harts of the domain (SBI 3.0, 3.1).
    ///
    /// # Errors
    ///
    /// [`ClaimError::Harts`] when one of them is not the domain's.
    pub fn harts(&self, mask: u64, base: u64) -> Result<HartSelection<'_>, ClaimError> {
        let selection = self.harts.select(mask, base);
        selection.ok_or(ClaimError::Harts { mask, base })
    }

    /// The harts that a legacy call's mask names, where bit 0 is the hart with ID 0; without
    /// a mask all harts of the domain. Bits of other harts are ignored: legacy calls define
    /// no error for them (SBI 3.0, chapter 5), and their callers check none.
    #[must_use]
    pub fn legacy_harts(&self, mask: Option<u64>) -> HartSelection<'_> {
        mask.map_or_else(|| self.harts.all(), |mask| self.harts.among(mask))
    }

    /// Whether the domain may ask for that.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Request`].
    pub fn ask(&self, request: Request) -> Result<(), ClaimError> {
        let allowed = self.rights.allow(request).then_some(());
        allowed.ok_or(ClaimError::Request(request))
    }
}
