//! Registers of configuration space and their fields, by dword.

pub(super) const ID: u16 = 0x00;
pub(super) const ID_SHARED_MEMORY: u32 = 0x1110_1af4;
/// Command (bits 15:0, kept) and status (bits 31:16, cleared by writing ones).
pub(super) const COMMAND: u16 = 0x04;
pub(super) const COMMAND_IO: u32 = 1 << 0;
pub(super) const COMMAND_MEMORY: u32 = 1 << 1;
pub(super) const COMMAND_MASTER: u32 = 1 << 2;
pub(super) const COMMAND_NO_INTX: u32 = 1 << 10;
pub(super) const STATUS_CAPABILITIES: u32 = 1 << 20;
pub(super) const CLASS: u16 = 0x08;
pub(super) const CLASS_NVME: u32 = 0x01_08_02;
pub(super) const CLASS_IOMMU: u32 = 0x08_06_00;
/// Cache line, latency timer, header type, self-test.
pub(super) const HEADER: u16 = 0x0c;
pub(super) const BAR0: u16 = 0x10;
/// Primary, secondary, subordinate bus of a bridge, secondary latency timer.
pub(super) const BUSES: u16 = 0x18;
/// A bridge's I/O window (bits 15:0) and secondary status.
pub(super) const IO_WINDOW: u16 = 0x1c;
pub(super) const MEMORY_WINDOW: u16 = 0x20;
/// A bridge's prefetchable window, and the upper halves of base and limit.
pub(super) const PREFETCH_WINDOW: u16 = 0x24;
pub(super) const PREFETCH_BASE_UPPER: u16 = 0x28;
pub(super) const PREFETCH_LIMIT_UPPER: u16 = 0x2c;
pub(super) const ROM: u16 = 0x30;
pub(super) const CAPABILITIES: u16 = 0x34;
pub(super) const BRIDGE_ROM: u16 = 0x38;
/// Interrupt line and pin; a bridge's control in bits 31:16.
pub(super) const INTERRUPT: u16 = 0x3c;

pub(super) const POWER_MANAGEMENT: u8 = 0x01;
pub(super) const MSI: u8 = 0x05;
pub(super) const VENDOR_CAPABILITY: u8 = 0x09;
pub(super) const PCI_EXPRESS: u8 = 0x10;
pub(super) const MSI_X: u8 = 0x11;

/// The identifier of the SR-IOV extended capability, and its control register.
pub(super) const VIRTUAL_FUNCTIONS: u16 = 0x0010;
pub(super) const VIRTUAL_CONTROL: u16 = 8;
pub(super) const VIRTUAL_ENABLE: u32 = 1 << 0;

/// Enable bits in the first dword of the capabilities.
pub(super) const MSI_ENABLE: u32 = 1 << 16;
pub(super) const MSI_X_ENABLE: u32 = 1 << 31;
/// Masks all messages.
pub(super) const MSI_X_MASK: u32 = 1 << 30;

/// Power state and control, from the start of the capability.
pub(super) const POWER_CONTROL: u16 = 4;
pub(super) const POWER_STATE: u32 = 0b11;
/// The transition from D3hot to D0 is not a reset.
pub(super) const NO_SOFT_RESET: u32 = 1 << 3;

/// The bits of a register that may be written back as read. The others are cleared by
/// writing ones, or start an action.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept(pub(super) u32);

impl Kept {
    pub(super) const ALL: Kept = Kept(u32::MAX);
    pub(super) const LOWER_HALF: Kept = Kept(0xffff);
    /// Power control without "PME status".
    pub(super) const POWER: Kept = Kept(0x7fff);
    /// Bridge control without "discard timer status", and the interrupt line.
    pub(super) const BRIDGE_CONTROL: Kept = Kept(0xfbff_00ff);
}

/// Whether a header dword is a PCI-to-PCI bridge's.
pub(super) fn is_bridge(header: u32) -> bool {
    header >> 16 & 0x7f == 1
}
