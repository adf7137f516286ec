//! Controller registers (3.1).

/// Capabilities.
pub const CAP: u64 = 0x00;
/// Version.
pub const VS: u64 = 0x08;
/// Interrupt mask set: ones mask interrupts.
pub const INTMS: u64 = 0x0c;
/// Interrupt mask clear: ones unmask interrupts.
pub const INTMC: u64 = 0x10;
/// Configuration.
pub const CC: u64 = 0x14;
/// Status.
pub const CSTS: u64 = 0x1c;
/// The admin queue's sizes.
pub const AQA: u64 = 0x24;
/// The address of the admin submission queue.
pub const ASQ: u64 = 0x28;
/// The address of the admin completion queue.
pub const ACQ: u64 = 0x30;
/// The offset of the first doorbell.
pub const DOORBELLS: u64 = 0x1000;

/// CC: enabled.
pub const CC_EN: u32 = 1;
/// CC: shutdown notification.
pub const CC_SHN: u32 = 0b11 << 14;
/// CC: normal shutdown.
pub const CC_SHN_NORMAL: u32 = 0b01 << 14;
/// CC: abrupt shutdown.
pub const CC_SHN_ABRUPT: u32 = 0b10 << 14;

/// CSTS: ready.
pub const CSTS_RDY: u32 = 1;
/// CSTS: fatal failure.
pub const CSTS_CFS: u32 = 1 << 1;
/// CSTS: shutdown status.
pub const CSTS_SHST: u32 = 0b11 << 2;
/// CSTS: shutdown in progress.
pub const CSTS_SHST_BUSY: u32 = 0b01 << 2;
/// CSTS: shutdown complete.
pub const CSTS_SHST_DONE: u32 = 0b10 << 2;
