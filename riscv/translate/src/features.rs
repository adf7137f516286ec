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
    /// Bits of `scounteren` that the hart keeps.
    pub counters: u64,
    /// `scounteren` at a start.
    pub counters_at_start: u64,
    /// Bits of `senvcfg` that the hart keeps.
    pub environment: u64,
    /// `mvendorid`, `marchid` and `mimpid`, which the SBI tells.
    pub identity: [u64; 3],
}

impl Features {
    /// A hart that only runs without translation.
    pub(crate) const LEAST: Features = Features {
        modes: 1,
        space_mask: 0,
        float: false,
        sstc: false,
        sets_accessed: false,
        page_types: false,
        zero_block: None,
        counters: 0,
        counters_at_start: 0,
        environment: 0,
        identity: [0; 3],
    };
}
