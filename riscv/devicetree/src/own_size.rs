//! Sizes of controllers whose registers machine mode closes to the OS.
//!
//! A board's `reg` may cover only the registers that Linux drives; the others would be open to the
//! OS. So the controller's own size decides the closed range, and no other node may have registers
//! there.

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::bound::{self, TooMany};
use crate::node::{NodeName, name_of};

/// Maximum number of register ranges that only machine mode may access.
pub const MAX_MACHINE_ONLY: usize = 16;

pub(crate) const MACHINE_ONLY: &str = "register ranges of machine mode";

/// Bytes of SiFive's CLINT: MTIME is its last register.
pub(crate) const CLINT: u64 = 0xc000;

/// Bytes of an ACLINT's devices (RISC-V ACLINT 1.0, chapters 2 and 3): registers of 4,095 harts,
/// and MTIME.
pub(crate) const MSWI: u64 = 0x4000;
pub(crate) const MTIMECMP: u64 = 0x7ff8;
pub(crate) const MTIME: u64 = 8;
pub(crate) const MTIMER: u64 = MTIMECMP + MTIME;

/// Bytes of QEMU's configuration device, with the register that starts DMA.
pub(crate) const FW_CFG: u64 = 0x18;

/// Bytes of a PLIC with this number of contexts (PLIC 1.0, "Memory Map").
pub(crate) fn plic(contexts: u64) -> u64 {
    0x20_0000 + contexts * 0x1000
}

/// Bytes of an APLIC domain that delivers interrupts directly to this number of harts (AIA, 4.5).
pub(crate) fn aplic(harts: u64) -> u64 {
    (0x4000 + harts * 32).next_multiple_of(PAGE_BYTES)
}

/// Registers of a controller past the end of its `reg`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beyond {
    pub(crate) controller: NodeName,
    pub(crate) range: PhysRange,
}

pub(crate) type AllBeyond = ArrayVec<Beyond, { 2 * MAX_MACHINE_ONLY }>;

/// Collects the registers that machine mode closes.
pub(crate) struct Closing<'a> {
    pub(crate) machine_only: &'a mut ArrayVec<PhysRange, MAX_MACHINE_ONLY>,
    pub(crate) beyond: &'a mut AllBeyond,
}

impl Closing<'_> {
    /// Closes a range of the controller's `reg`, extended to the controller's `bytes`. Returns the
    /// closed range.
    pub(crate) fn close(
        &mut self,
        node: FdtNode<'_>,
        reg: PhysRange,
        bytes: u64,
    ) -> Result<PhysRange, TooMany> {
        let whole = self.own(node, reg, bytes)?;
        bound::push(self.machine_only, MACHINE_ONLY, whole)?;
        Ok(whole)
    }

    /// Extends the range of a controller of which machine mode closes only parts.
    pub(crate) fn own(
        &mut self,
        node: FdtNode<'_>,
        reg: PhysRange,
        bytes: u64,
    ) -> Result<PhysRange, TooMany> {
        let own = PhysRange::new(reg.start, bytes);
        if own.end <= reg.end {
            return Ok(reg);
        }
        let beyond = Beyond {
            controller: name_of(node),
            range: PhysRange {
                start: reg.end,
                end: own.end,
            },
        };
        bound::push(
            self.beyond,
            "controllers that are larger than their reg",
            beyond,
        )?;
        Ok(own)
    }
}
