//! A hart's instruction set, from its node.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use crate::node::{bytes_of, cell};

/// ISA extensions that affect the firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Sstc: S-mode sets its timer itself.
    pub sstc: bool,
    /// H: the hart has a hypervisor mode.
    pub hypervisor: bool,
    /// Ssaia: S-mode reaches an IMSIC through CSRs.
    pub ssaia: bool,
    /// Svadu without Svade: hardware may set A and D bits.
    pub svadu: bool,
    /// Svpbmt: page-based memory types.
    pub svpbmt: bool,
    /// Zicbom: cache block management.
    pub zicbom: bool,
    /// Zicboz: cache block zeroing.
    pub zicboz: bool,
    /// Smstateen: state enable registers.
    pub smstateen: bool,
    /// Zkr: the hart has an entropy source (the seed CSR).
    pub zkr: bool,
    /// F and D: floating-point registers.
    pub float: bool,
    /// V: vector registers.
    pub vector: bool,
    /// XTheadCmo: T-Head's cache operations.
    pub xtheadcmo: bool,
    /// XTheadSync: instructions that wait for cache operations.
    pub xtheadsync: bool,
}

impl Extensions {
    pub(crate) fn of(cpu: FdtNode<'_>) -> Self {
        let isa = Isa::of(cpu);
        let listed = |name: &str| isa.has(name.as_bytes());
        Extensions {
            sstc: listed("sstc"),
            hypervisor: listed("h"),
            ssaia: listed("ssaia"),
            svadu: listed("svadu") && !listed("svade"),
            svpbmt: listed("svpbmt"),
            zicbom: listed("zicbom"),
            zicboz: listed("zicboz"),
            smstateen: listed("smstateen"),
            zkr: listed("zkr"),
            float: listed("f") && listed("d"),
            vector: listed("v"),
            xtheadcmo: listed("xtheadcmo"),
            xtheadsync: listed("xtheadsync"),
        }
    }
}

/// Block size of Zicbom; `None` if it is missing or invalid.
pub(crate) fn read_cache_block(cpu: FdtNode<'_>) -> Option<u64> {
    block(cpu, "riscv,cbom-block-size")
}

/// Block size of Zicboz; `None` as for Zicbom.
pub(crate) fn read_zero_block(cpu: FdtNode<'_>) -> Option<u64> {
    block(cpu, "riscv,cboz-block-size")
}

fn block(cpu: FdtNode<'_>, name: &str) -> Option<u64> {
    let bytes = cell(cpu, name).map(u64::from)?;
    (bytes.is_power_of_two() && (4..=4096).contains(&bytes)).then_some(bytes)
}

#[derive(Clone, Copy, Debug)]
enum Isa<'a> {
    /// `riscv,isa-extensions`: strings, each with a zero at its end.
    List(&'a [u8]),
    /// The older `riscv,isa`: `rv64`, letters, then longer names, each after a `_`.
    String(&'a [u8]),
}

impl<'a> Isa<'a> {
    fn of(cpu: FdtNode<'a>) -> Self {
        if let Some(list) = cpu.property("riscv,isa-extensions") {
            return Isa::List(bytes_of(list));
        }
        let string = cpu.property("riscv,isa").map(bytes_of);
        let string = string.unwrap_or_default();
        Isa::String(string.strip_suffix(b"\0").unwrap_or(string))
    }

    fn has(self, name: &[u8]) -> bool {
        let string = match self {
            Isa::List(list) => return list.split(|byte| *byte == 0).any(|entry| entry == name),
            Isa::String(string) => string,
        };
        let mut parts = string.split(|byte| *byte == b'_');
        let letters = parts.next().and_then(|part| part.get(4..));
        let letters = letters.unwrap_or_default();
        match name {
            [letter] => {
                letters.contains(letter) || (b"fd".contains(letter) && letters.contains(&b'g'))
            }
            long => parts.any(|part| part == long),
        }
    }
}
