//! Registers of an HBA and of its ports (AHCI 1.3.1, section 3).

pub(super) const CAP: u64 = 0x00;
pub(super) const CAP_FIS_SWITCHING: u32 = 1 << 16;
pub(super) const CAP_64: u32 = 1 << 31;
pub(super) const GHC: u64 = 0x04;
pub(super) const GHC_INTERRUPTS: u32 = 1 << 1;
pub(super) const GHC_AHCI: u32 = 1 << 31;
/// One bit for each port with a pending interrupt.
pub(super) const IS: u64 = 0x08;
/// One bit for each implemented port.
pub(super) const PI: u64 = 0x0c;
/// Control of completion coalescing.
pub(super) const CCC_CTL: u64 = 0x14;
pub(super) const CCC_ENABLE: u32 = 1 << 0;

/// The offset of the first port's registers, and the bytes of each port.
pub(super) const PORTS: u64 = 0x100;
pub(super) const PORT_BYTES: u64 = 0x80;

/// The command list's address, in two halves.
pub(super) const CLB: u64 = 0x00;
pub(super) const CLBU: u64 = 0x04;
/// The address of the area for received FISes, in two halves.
pub(super) const FB: u64 = 0x08;
pub(super) const FBU: u64 = 0x0c;
/// A port's pending interrupts; PXIE has the enabled ones.
pub(super) const PXIS: u64 = 0x10;
/// Errors of the host bus, the link and the task file, which stop the port.
pub(super) const PXIS_FATAL: u32 = 0x7800_0000;
pub(super) const PXIE: u64 = 0x14;
pub(super) const CMD: u64 = 0x18;
pub(super) const CMD_START: u32 = 1 << 0;
/// Spin-up and power.
pub(super) const CMD_POWER: u32 = 0b11 << 1;
/// Command list override, which clears itself.
pub(super) const CMD_OVERRIDE: u32 = 1 << 3;
pub(super) const CMD_FIS: u32 = 1 << 4;
pub(super) const CMD_FIS_RUNS: u32 = 1 << 14;
pub(super) const CMD_LIST_RUNS: u32 = 1 << 15;
pub(super) const CMD_MULTIPLIER: u32 = 1 << 17;
/// The link's next state, which clears itself.
pub(super) const CMD_LINK: u32 = 0xf << 28;
pub(super) const TFD: u64 = 0x20;
pub(super) const TFD_BUSY: u32 = 1 << 7 | 1 << 3;
pub(super) const TFD_ERROR: u32 = 1 << 5 | 1 << 0;
pub(super) const SIG: u64 = 0x24;
pub(super) const SIG_DISK: u32 = 0x0000_0101;
pub(super) const SIG_PACKET: u32 = 0xeb14_0101;
/// Status, control and errors of the link.
pub(super) const SSTS: u64 = 0x28;
pub(super) const SCTL: u64 = 0x2c;
/// In status: the detected device. In control: the requested action.
pub(super) const DETECTION: u32 = 0xf;
pub(super) const SSTS_PRESENT: u32 = 3;
pub(super) const SCTL_RESET: u32 = 1;
pub(super) const SERR: u64 = 0x30;
/// Queued commands that are not finished, and issued commands.
pub(super) const SACT: u64 = 0x34;
pub(super) const CI: u64 = 0x38;
/// Switching between the devices of a port multiplier.
pub(super) const FBS: u64 = 0x40;
pub(super) const FBS_ENABLE: u32 = 1 << 0;
