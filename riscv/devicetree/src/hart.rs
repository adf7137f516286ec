use crate::isa::Extensions;

/// Maximum number of harts of a machine.
pub const MAX_HARTS: usize = 32;

/// A hart that can run the OS, and its machine-mode registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hart {
    /// Hart ID.
    pub id: u64,
    /// Bytes of Zicbom's cache blocks, a power of two from 4 to 4096; `None` without Zicbom.
    pub cache_block: Option<u64>,
    /// Bytes that Zicboz clears at once, in the same range; `None` without Zicboz.
    pub zero_block: Option<u64>,
    /// Phandle of its interrupt controller, which devices refer to.
    pub(crate) controller: u32,
    /// ISA extensions.
    pub extensions: Extensions,
    /// Address of MSIP (CLINT or ACLINT MSWI).
    pub msip: Option<u64>,
    /// Address of MTIMECMP.
    pub mtimecmp: Option<u64>,
    /// Its M-level IMSIC file.
    pub machine_imsic: Option<ImsicFile>,
    /// Its S-level IMSIC files.
    pub os_imsic: Option<ImsicFile>,
}

/// The interrupt files of a hart, of one privilege level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImsicFile {
    /// Address of the hart's own file; its guests' files follow, a page each.
    pub address: u64,
    /// Number of interrupt identities of each file, at most 2047.
    pub identities: u32,
    /// log2 of the pages for the hart's files.
    pub guest_bits: u32,
}

/// The hart whose interrupt controller has the given phandle.
pub(crate) fn find_hart(harts: &mut [Hart], controller: u32) -> Option<&mut Hart> {
    harts.iter_mut().find(|hart| hart.controller == controller)
}
