//! The guest's instructions that the plugin recognises by their encoding.

/// A recognised instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// `wfi`.
    WaitForInterrupt,
    /// A hint that marks a phase of the guest's work: `slti x0, x0, N`.
    Mark(u16),
    /// A fence that waits for stores: `fence` with W among its predecessors, or T-Head's `th.sync`.
    Fence,
    /// Flushes the line whose address is in a register: `cbo.clean`, `cbo.flush`, `th.dcache.cva`,
    /// `.civa`, `.cval1`, `.cpa`, `.cipa`, `.cpal1`.
    FlushLine {
        /// The register, 0 to 31.
        register: u8,
        /// Whether the address is physical.
        is_physical: bool,
    },
    /// Flushes all lines of the hart: `th.dcache.call`, `th.dcache.ciall`.
    FlushAll,
}

const WFI: u32 = 0x1050_0073;

/// Masks for `fence`, `cbo.*` and T-Head's cache operations: opcode and funct3, and rd where it
/// must be zero.
const FENCE_MASK: u32 = 0x707f;
const FENCE: u32 = 0x000f;
const OPERATION_MASK: u32 = 0x7fff;
const CBO: u32 = 0x200f;
const THEAD: u32 = 0x000b;

/// A fence's predecessors: W (memory writes).
const FENCE_WRITES: u32 = 1 << 24;
const FENCE_SUCCESSORS: u32 = 0xf << 20;
/// R, and a fence's memory successors, R and W.
const FENCE_READS: u32 = 1 << 25;
const FENCE_MEMORY_AFTER: u32 = 3 << 20;

/// The function of `cbo.zero`.
const CBO_ZERO: u32 = 4;

/// `slti x0, x0`: opcode, rd, funct3 and rs1.
const MARK_MASK: u32 = 0xf_ffff;
const MARK: u32 = 0x2013;

impl Watched {
    /// Decodes an instruction. A compressed one has zeros in its upper half. `None`: the plugin
    /// does not need it.
    #[must_use]
    pub fn of(word: u32) -> Option<Self> {
        let function = word >> 20;
        if word == WFI {
            return Some(Watched::WaitForInterrupt);
        }
        if word & MARK_MASK == MARK {
            // Other software uses this hint with zero and negative numbers, for other purposes.
            let number = u16::try_from(function).ok()?;
            return (1..=2047)
                .contains(&number)
                .then_some(Watched::Mark(number));
        }
        if word & FENCE_MASK == FENCE {
            let orders = word & FENCE_WRITES != 0 && word & FENCE_SUCCESSORS != 0;
            return orders.then_some(Watched::Fence);
        }
        let line = |is_physical| {
            let register = u8::try_from(word >> 15 & 31).ok()?;
            Some(Watched::FlushLine {
                register,
                is_physical,
            })
        };
        match (word & OPERATION_MASK, function) {
            (CBO, 1 | 2) => line(false),
            (THEAD, 0x001 | 0x003) => Some(Watched::FlushAll),
            (THEAD, 0x028 | 0x029 | 0x02b) => line(true),
            (THEAD, 0x024 | 0x025 | 0x027) => line(false),
            (THEAD, 0x018..=0x01b) => Some(Watched::Fence),
            _ => None,
        }
    }
}

/// Bytes of an instruction.
#[must_use]
pub fn length(word: u32) -> u64 {
    if word & 3 == 3 { 4 } else { 2 }
}

/// Whether an instruction is a fence of memory accesses, loads or stores.
#[must_use]
pub fn orders_memory(word: u32) -> bool {
    let is_fence = word & FENCE_MASK == FENCE;
    is_fence && word & (FENCE_READS | FENCE_WRITES) != 0 && word & FENCE_MEMORY_AFTER != 0
}

/// Whether an instruction stores zeros to a line: `cbo.zero`.
#[must_use]
pub fn zeroes_line(word: u32) -> bool {
    word & OPERATION_MASK == CBO && word >> 20 == CBO_ZERO
}

/// Whether an instruction returns from a function: `ret` (`jalr x0, 0(ra)`), or `c.jr ra`.
#[must_use]
pub fn returns(word: u32) -> bool {
    matches!(word, 0x0000_8067 | 0x8082)
}

/// Whether an instruction raises no exception in the middle of a block: register arithmetic and
/// jumps. At any other instruction QEMU may leave the block early.
#[must_use]
pub fn is_plain(word: u32) -> bool {
    if word & 3 == 3 {
        // lui, auipc, and arithmetic with and without immediates.
        return matches!(word & 0x7f, 0x13 | 0x17 | 0x1b | 0x33 | 0x37 | 0x3b);
    }
    match (word & 3, word >> 13 & 7) {
        // c.addi4spn; c.slli; c.mv, c.add and jumps.
        (0 | 2, 0) | (2, 4) => true,
        // All except c.lui, whose encodings include the stores of shadow stacks.
        (1, function) => function != 3,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_is_known() {
        let line = |register, is_physical| {
            Some(Watched::FlushLine {
                register,
                is_physical,
            })
        };
        for (word, watched) in [
            (0x1050_0073, Some(Watched::WaitForInterrupt)),
            // slti x0, x0, 1; 2047; 0; -1; slti x0, x1, 1
            (0x0010_2013, Some(Watched::Mark(1))),
            (0x7ff0_2013, Some(Watched::Mark(2047))),
            (0x0000_2013, None),
            (0xfff0_2013, None),
            (0x0010_a013, None),
            // fence; fence w,w; fence r,rw; pause; fence.tso; fence.i
            (0x0ff0_000f, Some(Watched::Fence)),
            (0x0110_000f, Some(Watched::Fence)),
            (0x0230_000f, None),
            (0x0100_000f, None),
            (0x8330_000f, Some(Watched::Fence)),
            (0x0000_100f, None),
            // cbo.inval, clean, flush, zero (a0)
            (0x0005_200f, None),
            (0x0015_200f, line(10, false)),
            (0x0025_200f, line(10, false)),
            (0x0045_200f, None),
            // th.dcache.call, ciall, iall, cva a0, ipa a0, cipa a0, sync, sync.s
            (0x0010_000b, Some(Watched::FlushAll)),
            (0x0030_000b, Some(Watched::FlushAll)),
            (0x0020_000b, None),
            (0x0255_000b, line(10, false)),
            (0x02a5_000b, None),
            (0x02b5_000b, line(10, true)),
            (0x0180_000b, Some(Watched::Fence)),
            (0x0190_000b, Some(Watched::Fence)),
        ] {
            assert_eq!(Watched::of(word), watched, "{word:#010x}");
        }
    }

    #[test]
    fn fences_and_zeroed_lines_are_known() {
        // fence; fence r,rw; fence rw,w; fence.tso
        for fence in [0x0ff0_000f, 0x0230_000f, 0x0310_000f, 0x8330_000f] {
            assert!(orders_memory(fence), "{fence:#x}");
        }
        // pause; fence i,o; fence.i; cbo.flush; add
        for other in [0x0100_000f, 0x0840_000f, 0x100f, 0x0025_200f, 0x00b5_0533] {
            assert!(!orders_memory(other), "{other:#x}");
        }
        assert!(zeroes_line(0x0045_200f) && zeroes_line(0x0042_a00f));
        assert!(!zeroes_line(0x0025_200f) && !zeroes_line(0x0045_300f));
        assert_eq!((length(0x0045_200f), length(0x0505)), (4, 2));
    }

    #[test]
    fn returns_are_known() {
        assert!(returns(0x0000_8067) && returns(0x8082));
        // jalr x0, 4(ra); jalr x0, 0(t0); jalr ra, 0(ra); c.jr a0; c.jalr ra
        for other in [0x0040_8067, 0x0002_8067, 0x0000_80e7, 0x8502, 0x9082] {
            assert!(!returns(other), "{other:#x}");
        }
    }

    #[test]
    fn what_may_leave_a_block_is_not_plain() {
        // add, addi, lui, c.addi a0,1, c.mv
        for word in [0x00b5_0533, 0x0015_0513, 0x0000_0537, 0x0505, 0x852e] {
            assert!(is_plain(word), "{word:#x}");
        }
        // ld, sd, csrr, ecall, amoadd, c.ld, c.sdsp, c.lwsp, c.lui, fld
        let others = [
            0x0005_3503,
            0x00a5_3023,
            0x3000_2573,
            0x0000_0073,
            0x00a5_302f,
            0x6108,
            0xe02a,
            0x4502,
            0x6505,
            0x0005_3507,
        ];
        for word in others {
            assert!(!is_plain(word), "{word:#x}");
        }
    }
}
