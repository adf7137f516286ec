//! Registers of the 82574 (datasheet, section 10.2).

use poorwill_memory::to_usize;

pub(super) const CTRL: u64 = 0x0000;
pub(super) const CTRL_MASTER_DISABLE: u32 = 1 << 2;
pub(super) const CTRL_RESET: u32 = 1 << 26;
pub(super) const CTRL_PHY_RESET: u32 = 1 << 31;
pub(super) const STATUS: u64 = 0x0008;
pub(super) const STATUS_MASTER: u32 = 1 << 19;
/// NVM control and status.
pub(super) const EECD: u64 = 0x0010;
pub(super) const EECD_AUTO_READ_DONE: u32 = 1 << 9;
/// NVM read.
pub(super) const EERD: u64 = 0x0014;
pub(super) const EERD_START: u32 = 1 << 0;
pub(super) const EERD_DONE: u32 = 1 << 1;
pub(super) const EERD_ADDRESS: u32 = 0xfffc;
/// PHY access.
pub(super) const MDIC: u64 = 0x0020;
pub(super) const MDIC_OPERATION: u32 = 0b11 << 26;
pub(super) const MDIC_REQUEST: u32 = 0x0fff_ffff;
pub(super) const CTRL_EXT: u64 = 0x0018;
/// Bits that start an action and clear themselves.
pub(super) const CTRL_EXT_STARTS: u32 = 0b11 << 12;
/// Interrupt causes: set, enable, disable. A read of ICR would clear the causes.
pub(super) const ICS: u64 = 0x00c8;
pub(super) const IMS: u64 = 0x00d0;
pub(super) const IMC: u64 = 0x00d8;
pub(super) const RCTL: u64 = 0x0100;
pub(super) const TCTL: u64 = 0x0400;
pub(super) const ENABLE: u32 = 1 << 1;
/// Delays of interrupts. The flag makes the controller write back processed descriptors.
pub(super) const RDTR: u64 = 0x2820;
pub(super) const TIDV: u64 = 0x3820;
pub(super) const FLUSH_DESCRIPTORS: u32 = 1 << 31;
/// Division of the packet buffer; a change takes effect at a reset.
pub(super) const PBA: u64 = 0x1000;

/// Heads and tails of the rings, in the order of the restore.
pub(super) const RINGS: [u64; 8] = [
    0x2810, 0x2910, 0x3810, 0x3910, // RDH, TDH
    0x3818, 0x3918, 0x2818, 0x2918, // TDT, RDT
];

/// Registers that are saved and restored unchanged: the first offset, and the number of
/// registers.
pub(super) const KEPT: &[(u64, u64)] = &[
    (0x0028, 3), // FCAL, FCAH, FCT
    (0x0038, 1), // VET
    (0x00c4, 1), // ITR
    (0x00dc, 8), // EIAC, IAM, IVAR, EITR 0 to 4
    (0x0170, 1), // FCTTV
    (0x0404, 1), // TCTL_EXT
    (0x0410, 1), // TIPG
    (0x0458, 1), // AIT
    (0x0e00, 1), // LEDCTL
    (0x1008, 1), // PBS
    (0x2008, 1), // ERT
    (0x2160, 1), // FCRTL
    (0x2168, 1), // FCRTH
    (0x2170, 1), // PSRCTL
    (0x2800, 1), // RDBAL 0
    (0x2804, 1), // RDBAH 0
    (0x2808, 1), // RDLEN 0
    (RDTR, 1),
    (0x2828, 1), // RXDCTL 0
    (0x282c, 1), // RADV
    (0x2900, 1), // RDBAL 1
    (0x2904, 1), // RDBAH 1
    (0x2908, 1), // RDLEN 1
    (0x2928, 1), // RXDCTL 1
    (0x2c00, 1), // RSRPD
    (0x2c08, 1), // RAID
    (0x3800, 1), // TDBAL 0
    (0x3804, 1), // TDBAH 0
    (0x3808, 1), // TDLEN 0
    (TIDV, 1),
    (0x3828, 1),   // TXDCTL 0
    (0x382c, 1),   // TADV
    (0x3840, 1),   // TARC 0
    (0x3900, 1),   // TDBAL 1
    (0x3904, 1),   // TDBAH 1
    (0x3908, 1),   // TDLEN 1
    (0x3928, 1),   // TXDCTL 1
    (0x3940, 1),   // TARC 1
    (0x5000, 1),   // RXCSUM
    (0x5008, 1),   // RFCTL
    (0x5200, 128), // MTA
    (0x5400, 32),  // RAL, RAH
    (0x5600, 128), // VFTA
    (0x5800, 1),   // WUC
    (0x5808, 1),   // WUFC
    (0x5818, 1),   // MRQC
    (0x5820, 1),   // MANC
    (0x5860, 1),   // MANC2H
    (0x5b00, 1),   // GCR
    (0x5b64, 1),   // GCR2
    (0x5c00, 32),  // RETA
    (0x5c80, 10),  // RSSRK
    (0x5f40, 1),   // FCRTV
    (0xb600, 1),   // SYSTIML
    (0xb604, 1),   // SYSTIMH
    (0xb608, 1),   // TIMINCA
    (0xb614, 1),   // TSYNCTXCTL
    (0xb620, 1),   // TSYNCRXCTL
    (0xb634, 1),   // RXMTRL
    (0xb638, 1),   // RXUDP
];

pub(super) const REGISTERS: usize = {
    let (mut sum, mut place) = (0, 0);
    while place < KEPT.len() {
        sum += KEPT[place].1;
        place += 1;
    }
    to_usize(sum)
};

pub(super) fn kept() -> impl Iterator<Item = u64> {
    let offsets = |(first, count): &(u64, u64)| {
        let first = *first;
        (0..*count).map(move |place| first + 4 * place)
    };
    KEPT.iter().flat_map(offsets)
}
