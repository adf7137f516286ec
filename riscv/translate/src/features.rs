/// Properties of the lent hart. A virtual hart shows the OS no others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Values of `satp`'s mode that the hart takes, as bits.
    pub modes: u16,
    /// Bits of an ASID that the hart keeps.
    pub space_mask: u64,
    /// The hart has floating-point registers.
    pub float: bool,
    /// S-mode has its own timer (Sstc).
    pub sstc: bool,
    /// The hart sets A and D bits itself (`menvcfg.ADUE`). Otherwise it raises page faults.
    pub sets_accessed: bool,
    /// Pages have memory types (`menvcfg.PBMTE`).
    pub page_types: bool,
    /// Bytes that `cbo.zero` clears, a power of two; `None` without Zicboz.
    pub zero_block: Option<u64>,
}
