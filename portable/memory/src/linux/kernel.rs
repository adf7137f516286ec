use zerocopy::IntoBytes;

use super::address_space::{AddressSpace, Span};
use super::error::FreeListError;
use crate::{OsMemory, OsPage, PAGE_BYTES, Page, PhysRange, to_usize};

const RECENT: usize = 32;

/// The bytes of address space that share a cache entry: those of one large page.
const STRIDE: u64 = 2 << 20;

/// Reads the kernel's memory at kernel addresses.
pub(super) struct Kernel<'a, A> {
    pub(super) memory: &'a OsMemory,
    space: &'a A,
    recent: [Option<Span>; RECENT],
}

impl<'a, A: AddressSpace> Kernel<'a, A> {
    pub(super) fn new(memory: &'a OsMemory, space: &'a A) -> Self {
        Kernel {
            memory,
            space,
            recent: [None; RECENT],
        }
    }

    pub(super) fn go_on(&self) -> Result<(), FreeListError> {
        match self.space.goes_on() {
            true => Ok(()),
            false => Err(FreeListError::Ended),
        }
    }

    /// The mapping of a kernel address. It is an error if user mode has access to it.
    fn span(&mut self, address: u64) -> Result<Span, FreeListError> {
        let place = &mut self.recent[to_usize(address / STRIDE) % RECENT];
        if let Some(span) = *place
            && address.wrapping_sub(span.start) < span.bytes
        {
            return Ok(span);
        }
        let span = self
            .space
            .span(self.memory, address)
            .filter(|span| !span.user)
            .ok_or(FreeListError::Nowhere(address))?;
        *place = Some(span);
        Ok(span)
    }

    /// The page of OS memory for an address, and the offset in the page.
    #[inline(never)]
    fn locate(&mut self, address: u64) -> Result<(OsPage, usize), FreeListError> {
        self.go_on()?;
        let span = self.span(address)?;
        let page = self
            .memory
            .page_at(span.physical + (address - span.start))
            .ok_or(FreeListError::Nowhere(address))?;
        Ok((page, to_usize(address % PAGE_BYTES)))
    }

    pub(super) fn physical(&mut self, address: u64) -> Result<u64, FreeListError> {
        let (page, offset) = self.locate(address)?;
        Ok(page.address() + offset as u64)
    }

    /// Reads the 64-bit word at an address, which must be a multiple of 8.
    pub(super) fn word(&mut self, address: u64) -> Result<u64, FreeListError> {
        let (page, offset) = self.locate(address)?;
        if !offset.is_multiple_of(8) {
            return Err(FreeListError::Nowhere(address));
        }
        Ok(self.memory.page(page).0[offset / 8])
    }

    /// Reads the 32-bit word at an address, which must be a multiple of 4.
    pub(super) fn half(&mut self, address: u64) -> Result<u32, FreeListError> {
        let (page, offset) = self.locate(address)?;
        if !offset.is_multiple_of(4) {
            return Err(FreeListError::Nowhere(address));
        }
        let bytes = &self.memory.page(page).as_bytes()[offset..offset + 4];
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(super) fn find(
        &self,
        first: u64,
        most: u64,
        is_found: &dyn Fn(&PhysRange) -> bool,
    ) -> Option<PhysRange> {
        self.space.find(self.memory, first, most, is_found)
    }

    /// Whether an address is in the range reserved for the kernel's image.
    pub(super) fn is_image(&self, address: u64) -> bool {
        self.space.is_image(address)
    }

    /// The page of the kernel's image with this address, which must be read-only even for
    /// the kernel.
    fn constant_page(&mut self, address: u64) -> Result<&'a Page, FreeListError> {
        let doubt = FreeListError::Symbols(address);
        let constant = self.is_image(address) && !self.span(address)?.writable;
        let (page, _) = self.locate(address)?;
        constant.then(|| self.memory.page(page)).ok_or(doubt)
    }
}

/// Reads consecutive bytes of the kernel's image, which must be read-only even for the
/// kernel.
pub(super) struct Constants<'a> {
    address: u64,
    page: Option<&'a Page>,
}

impl<'a> Constants<'a> {
    pub(super) fn new(address: u64) -> Self {
        Constants {
            address,
            page: None,
        }
    }

    #[inline]
    pub(super) fn byte<A: AddressSpace>(
        &mut self,
        kernel: &mut Kernel<'a, A>,
    ) -> Result<u8, FreeListError> {
        let page = match self.page {
            Some(page) => page,
            None => *self.page.insert(kernel.constant_page(self.address)?),
        };
        let byte = page.as_bytes()[to_usize(self.address % PAGE_BYTES)];
        self.skip(1);
        Ok(byte)
    }

    #[inline]
    pub(super) fn skip(&mut self, bytes: u64) {
        let next = self.address.wrapping_add(bytes);
        if next / PAGE_BYTES != self.address / PAGE_BYTES {
            self.page = None;
        }
        self.address = next;
    }

    /// Reads the next `N` bytes, for a number.
    pub(super) fn number<A: AddressSpace, const N: usize>(
        &mut self,
        kernel: &mut Kernel<'a, A>,
    ) -> Result<[u8; N], FreeListError> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte(kernel)?;
        }
        Ok(bytes)
    }
}
