//! Registers and their fields (chapter 5).

/// 64 bits; read-only (5.3).
pub(super) const CAPABILITIES: u64 = 0x00;
/// 32 bits (5.4).
pub(super) const FCTL: u64 = 0x08;
/// 64 bits: mode and root of the device directory (5.5).
pub(super) const DDTP: u64 = 0x10;
/// 64 bits: base and size of the command queue (5.6).
pub(super) const CQB: u64 = 0x18;
/// 32 bits: index of the next command that the IOMMU reads; read-only (5.7).
pub(super) const CQH: u64 = 0x20;
/// 32 bits: index at which software queues the next command (5.8).
pub(super) const CQT: u64 = 0x24;
/// 64 bits: base and size of the fault queue (5.9).
pub(super) const FQB: u64 = 0x28;
/// 32 bits: index of the next fault record that software reads (5.10).
pub(super) const FQH: u64 = 0x30;
/// 32 bits: index at which the IOMMU writes the next record; read-only (5.11).
pub(super) const FQT: u64 = 0x34;
/// 32 bits (5.15).
pub(super) const CQCSR: u64 = 0x48;
/// 32 bits (5.16).
pub(super) const FQCSR: u64 = 0x4c;
/// 32 bits; only with ATS (5.17).
pub(super) const PQCSR: u64 = 0x50;

pub(super) mod capabilities {
    pub(crate) const VERSION: u64 = 0xff;
    pub(crate) const MAJOR_SHIFT: u32 = 4;
    pub(crate) const SV39: u64 = 1 << 9;
    pub(crate) const SV48: u64 = 1 << 10;
    /// Contexts have 64 bytes.
    pub(crate) const MSI_FLAT: u64 = 1 << 22;
    pub(crate) const ATS: u64 = 1 << 25;
    /// Physical address bits, in the fifth byte.
    pub(crate) const PAS: u8 = 0x3f;
}

pub(super) mod fctl {
    /// Tables and queues are big-endian.
    pub(crate) const BE: u32 = 1 << 0;
    /// Tables are those of RV32.
    pub(crate) const GXL: u32 = 1 << 2;
}

pub(super) mod ddtp {
    pub(crate) const MODE: u64 = 0xf;
    /// Devices cannot access memory.
    pub(crate) const OFF: u64 = 0;
    /// Devices use physical addresses.
    pub(crate) const BARE: u64 = 1;
    /// A directory of one level; each more level is the next mode.
    pub(crate) const ONE_LEVEL: u64 = 2;
    /// A write has not taken effect yet.
    pub(crate) const BUSY: u64 = 1 << 4;
}

/// The fields that the control registers of all queues have in common.
pub(super) mod queue {
    pub(crate) const ENABLE: u32 = 1 << 0;
    /// The IOMMU could not access memory. Writing 1 clears it.
    pub(crate) const MEMORY_FAULT: u32 = 1 << 8;
    pub(crate) const ON: u32 = 1 << 16;
    /// A write has not taken effect yet.
    pub(crate) const BUSY: u32 = 1 << 17;
}

pub(super) mod cqcsr {
    pub(crate) const TIMED_OUT: u32 = 1 << 9;
    pub(crate) const ILLEGAL: u32 = 1 << 10;
}

pub(super) mod fqcsr {
    /// A record was dropped. Writing 1 clears it; until then all records are dropped.
    pub(crate) const OVERFLOW: u32 = 1 << 9;
}

/// Lowest bit of a page number in DDTP, CQB, FQB, page tables and non-leaf directory entries.
pub(super) const PAGE_NUMBER: u32 = 10;
