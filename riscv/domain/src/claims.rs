use poorwill_memory::PhysRange;
use thiserror::Error;

use crate::domain::{Domain, Request};
use crate::harts::HartSelection;

/// Bytes of the shortest instruction, and its alignment: harts that run an OS have compressed
/// instructions (IALIGN is 16).
pub(crate) const INSTRUCTION_BYTES: u64 = 2;

/// Why a domain's call is refused: an argument names something that the domain does not own.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClaimError {
    #[error("the domain may not execute at {0:#x}")]
    Code(u64),
    #[error("{length} bytes at {high:#x}:{low:#018x} are not the domain's memory")]
    Bytes {
        length: u64,
        /// Lower 64 bits of the address.
        low: u64,
        /// Upper 64 bits of the address.
        high: u64,
    },
    #[error("hart {0} is not the domain's")]
    Hart(u64),
    #[error("hart mask {mask:#x} with base {base:#x} names harts outside the domain")]
    Harts {
        mask: u64,
        /// ID of the hart of bit 0.
        base: u64,
    },
    #[error("the range {start:#x}+{size:#x} overflows")]
    Fence { start: u64, size: u64 },
    #[error("the domain has no right to request {0:?}")]
    Request(Request),
}

/// A physical address at which a domain may execute; only a checked claim makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeAddress(u64);

impl CodeAddress {
    /// The address.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Bytes of a domain's memory that the firmware may read and write for the OS; only a checked claim
/// makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedBytes {
    address: u64,
    length: u64,
}

impl ClaimedBytes {
    /// Limits them to the first `most` bytes.
    #[must_use]
    pub fn first(self, most: u64) -> Self {
        ClaimedBytes {
            length: self.length.min(most),
            ..self
        }
    }

    /// Physical address of the first byte.
    #[must_use]
    pub fn address(self) -> u64 {
        self.address
    }

    /// Number of bytes.
    #[must_use]
    pub fn length(self) -> u64 {
        self.length
    }
}

impl Domain {
    /// Checks an address at which a hart starts, resumes or wakes. It may lie in memory or flash:
    /// SBI asks for a "physical address which is executable" by S-mode alone (SBI 3.0, tables 9.2
    /// and 13.2).
    ///
    /// # Errors
    ///
    /// [`ClaimError::Code`] if it is odd, or neither in the domain's memory nor in its flash.
    pub fn executable(&self, address: u64) -> Result<CodeAddress, ClaimError> {
        let is_code = address.is_multiple_of(INSTRUCTION_BYTES)
            && (self.memory.contains(address, INSTRUCTION_BYTES) || self.has_flash(address));
        is_code
            .then_some(CodeAddress(address))
            .ok_or(ClaimError::Code(address))
    }

    /// Returns whether an instruction at `address` lies in the domain's flash.
    fn has_flash(&self, address: u64) -> bool {
        let end = address.checked_add(INSTRUCTION_BYTES);
        let holds = |range: &PhysRange| range.contains(address) && end <= Some(range.end);
        end.is_some() && self.flash.iter().any(holds)
    }

    /// Entry point of the domain's next stage.
    ///
    /// # Errors
    ///
    /// As [`executable`](Self::executable).
    pub fn entry(&self) -> Result<CodeAddress, ClaimError> {
        self.executable(self.next_stage.address)
    }

    /// Checks `length` bytes of memory at an address with the lower half `low` and the upper half
    /// `high` (as in DBCN; SBI 3.0, chapter 12). A length of zero is valid within the domain's
    /// memory and at its end.
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

    /// Checks the ID of a hart.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Hart`].
    pub fn hart(&self, id: u64) -> Result<u64, ClaimError> {
        let found = self.harts.contains(id).then_some(id);
        found.ok_or(ClaimError::Hart(id))
    }

    /// Checks a hart mask; bit 0 stands for the hart with ID `base`. A base of all ones names all
    /// harts of the domain (SBI 3.0, 3.1).
    ///
    /// # Errors
    ///
    /// [`ClaimError::Harts`] if the mask names a hart outside the domain.
    pub fn harts(&self, mask: u64, base: u64) -> Result<HartSelection<'_>, ClaimError> {
        let selection = self.harts.select(mask, base);
        selection.ok_or(ClaimError::Harts { mask, base })
    }

    /// The harts of a legacy call's mask, where bit 0 is the hart with ID 0; without a mask all
    /// harts of the domain. Bits of other harts are ignored: legacy calls define no error for them
    /// (SBI 3.0, chapter 5), and their callers check none.
    #[must_use]
    pub fn legacy_harts(&self, mask: Option<u64>) -> HartSelection<'_> {
        mask.map_or_else(|| self.harts.all(), |mask| self.harts.among(mask))
    }

    /// Checks the right to make a request.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Request`].
    pub fn ask(&self, request: Request) -> Result<(), ClaimError> {
        let allowed = self.rights.allow(request).then_some(());
        allowed.ok_or(ClaimError::Request(request))
    }
}
