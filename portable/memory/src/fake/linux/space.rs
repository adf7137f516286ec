extern crate std;

use std::collections::BTreeMap;

use crate::linux::{AddressSpace, Span};
use crate::{OsMemory, PAGE_BYTES, PhysRange};

/// The address of the model's image, as for Linux on RISC-V.
pub(super) const IMAGE: u64 = 0xffff_ffff_8000_0000;

/// The virtual addresses of a kernel's other areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The map of all memory.
    pub linear_map: u64,
    /// The array of page structures.
    pub page_structs: u64,
}

impl Places {
    /// Those of Linux 6.12 on RISC-V with page tables of three, four and five levels.
    pub const ALL: [Places; 3] = [
        Places {
            linear_map: 0xffff_ffd6_0000_0000,
            page_structs: 0xffff_ffc5_0000_0000,
        },
        Places {
            linear_map: 0xffff_af80_0000_0000,
            page_structs: 0xffff_8d80_0000_0000,
        },
        Places {
            linear_map: 0xff60_0000_0000_0000,
            page_structs: 0xff1c_0000_0000_0000,
        },
    ];
}

/// The access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// The kernel can read it.
    Read,
    /// The kernel can read and write it.
    Write,
    /// User mode can read it.
    UserRead,
}

/// An address space that is a list of pages.
#[derive(Clone, Debug, Default)]
pub struct FakeSpace(BTreeMap<u64, (u64, Rights)>);

impl FakeSpace {
    /// Maps a page.
    pub fn map(&mut self, address: u64, physical: u64, rights: Rights) {
        self.0.insert(address, (physical, rights));
    }

    /// Translates an address; `None` if it is not mapped.
    #[must_use]
    pub fn physical(&self, address: u64) -> Option<u64> {
        let offset = address % PAGE_BYTES;
        let (page, _) = self.0.get(&(address - offset))?;
        Some(page + offset)
    }

    /// All mapped pages: virtual address, physical address, rights.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, u64, Rights)> + '_ {
        (self.0.iter()).map(|(address, (physical, rights))| (*address, *physical, *rights))
    }
}

impl AddressSpace for FakeSpace {
    fn span(&self, _memory: &OsMemory, address: u64) -> Option<Span> {
        let start = address / PAGE_BYTES * PAGE_BYTES;
        let (physical, rights) = *self.0.get(&start)?;
        Some(Span {
            start,
            physical,
            bytes: PAGE_BYTES,
            writable: rights == Rights::Write,
            user: rights == Rights::UserRead,
        })
    }

    fn find(
        &self,
        _memory: &OsMemory,
        first: u64,
        most: u64,
        is_found: &dyn Fn(&PhysRange) -> bool,
    ) -> Option<PhysRange> {
        let pages = self.0.range(first..IMAGE).take(crate::to_usize(most));
        let ranges = pages.map(|(_, (physical, _))| PhysRange::new(*physical, PAGE_BYTES));
        ranges.into_iter().find(is_found)
    }

    fn is_image(&self, address: u64) -> bool {
        address >= IMAGE
    }
}
