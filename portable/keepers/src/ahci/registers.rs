//! Registers of an HBA and of its ports (AHCI 1.3.1, section 3).

/// The HBA's capabilities.
pub(super) const CAP: u64 = 0x00;
pub(super) const CAP_FIS_SWITCHING: u32 = 1 << 16;
pub(super) const CAP_64: u32 = 1 << 31;
/// Global control.
pub(super) const GHC: u64 = 0x04;
pub(super) const GHC_INTERRUPTS: u32 = 1 << 1;
pub(super) const GHC_AHCI: u32 = 1 << 31;
/// Ports with an interrupt pending.
pub(super) const IS: u64 = 0x08;
/// Ports that there are.
pub(super) const PI: u64 = 0x0c;
/// Coalescing of completions.
pub(super) const CCC_CTL: u64 = 0x14;
pub(super) const CCC_ENABLE: u32 = 1 << 0;

/// Where the first port's registers are, and how many bytes each has.
pub(super) const PORTS: u64 = 0x100;
pub(super) const PORT_BYTES: u64 = 0x80;

/// Command list, and its upper half.
pub(super) const CLB: u64 = 0x00;
pub(super) const CLBU: u64 = 0x04;
/// Area of received FISes, and its upper half.
pub(super) const FB: u64 = 0x08;
pub(super) const FBU: u64 = 0x0c;
/// What the port interrupts for: what is pending, what is enabled.
pub(super) const PXIS: u64 = 0x10;
/// Host bus errors, errors on the link, and of the task file: the port issues nothing more.
pub(super) const PXIS_FATAL: u32 = 0x7800_0000;
pub(super) const PXIE: u64 = 0x14;
/// Command and status.
pub(super) const CMD: u64 = 0x18;
pub(super) const CMD_START: u32 = 1 << 0;
/// Spin-up and power.
pub(super) const CMD_POWER: u32 = 0b11 << 1;
/// Override of the command list: clears itself.
pub(super) const CMD_OVERRIDE: u32 = 1 << 3;
pub(super) const CMD_FIS: u32 = 1 << 4;
pub(super) const CMD_FIS_RUNS: u32 = 1 << 14;
pub(super) const CMD_LIST_RUNS: u32 = 1 << 15;
pub(super) const CMD_MULTIPLIER: u32 = 1 << 17;
/// What the link is to do: clears itself.
pub(super) const CMD_LINK: u32 = 0xf << 28;
/// The task file.
pub(super) const TFD: u64 = 0x20;
pub(super) const TFD_BUSY: u32 = 1 << 7 | 1 << 3;
pub(super) const TFD_ERROR: u32 = 1 << 5 | 1 << 0;
/// The device's signature.
pub(super) const SIG: u64 = 0x24;
pub(super) const SIG_DISK: u32 = 0x0000_0101;
pub(super) const SIG_PACKET: u32 = 0xeb14_0101;
/// Status, control and errors of the link.
pub(super) const SSTS: u64 = 0x28;
pub(super) const SCTL: u64 = 0x2c;
/// In both: what is there, what is to be done.
pub(super) const DETECTION: u32 = 0xf;
pub(super) const SSTS_PRESENT: u32 = 3;
pub(super) const SCTL_RESET: u32 = 1;
pub(super) const SERR: u64 = 0x30;
/// Queued commands that are not done, and commands that are to be issued.
pub(super) const SACT: u64 = 0x34;
pub(super) const CI: u64 = 0x38;
/// Switching between devices behind a port multiplier.
pub(super) const FBS: u64 = 0x40;
pub(super) const FBS_ENABLE: u32 = 1 << 0;
