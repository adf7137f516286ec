//! What the domains' guest does (tests/hostile), and the addresses that it tries.

use super::tree::{
    APLICS, BRIDGE, CARD, CARD_CONFIGURATION, CARD_SOURCES, CONFIGURATION, DEVICE, FILES, MEMORY,
    ORDERS, PROGRAM, UART,
};
use crate::plan::Role;

/// The clock, whose time the owner of the UART may read.
const CLOCK: u64 = 0x10_1000;

/// What neither domain may reach: firmware, CLINT, M-level APLICs and IMSICs, IOMMU, configuration
/// space, windows of PCI, flash, configuration device, test device, virtio, memory of no
/// domain, an address without a device.
const NOBODYS: [u64; 19] = [
    0x8000_0000,
    0x8010_0000,
    0x200_0000,
    0x200_bff8,
    0xc00_0000,
    0xc00_8000,
    0x2400_0000,
    0x2500_0000,
    0x301_0000,
    0x3000_0000,
    BRIDGE + 4,
    BRIDGE + 0x18,
    CARD_CONFIGURATION + 0x10,
    CARD,
    0x2000_0000,
    0x1010_0000,
    0x10_0000,
    0x1000_1000,
    0x8700_0000,
];

/// The orders of a domain that has no devices, and tries no addresses.
pub(super) fn orders_alone(role: Role) -> Vec<u8> {
    let (role, sleep) = number(role);
    let words = [role, 0, 0, 0, 0, 0, 0, 0, 0, sleep, 0, 0];
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// The guest's number for a role, and the time of its sleeps, or what the role has in its place.
fn number(role: Role) -> (u64, u64) {
    match role {
        Role::Attack => (0, 0),
        Role::Watch | Role::WatchDevice => (1, 0),
        Role::Park(ticks) => (2, ticks),
        Role::Master(ticks) => (3, ticks),
        Role::Reset => (4, 0),
        Role::ResetAmidSleep => (5, 0),
        Role::Probe => (6, 0),
        Role::Idle => (7, 0),
        Role::Flood => (8, 0),
        Role::Clock => (9, 0),
        Role::ResetAmidDma => (10, 0),
        Role::AttackByDisk => (11, 0),
        Role::Overflow => (12, 0),
        Role::Stop => (13, 0),
        Role::BeginLine => (14, 0),
        Role::Race(ticks) => (16, ticks),
        Role::Storm => (17, 0),
        Role::Ask(refusals) => (18, refusals),
        Role::Start(ticks) => (19, ticks),
        Role::LargeMaster(ticks) => (20, ticks),
        Role::LargePark(ticks) => (21, ticks),
        Role::Endure(ticks) => (22, ticks),
    }
}

/// Both sides of each bound of the partition: both domains' memory, the firmware's, controllers of
/// both levels, files, the UART.
const BOUNDS: [u64; 28] = [
    0x7fff_fffc,
    0x8000_0000,
    0x801f_fffc,
    0x8020_0000,
    0x83ff_fffc,
    0x8400_0000,
    0x8fff_fffc,
    0x9000_0000,
    0x93ff_fffc,
    0x9400_0000,
    0xbff_fffc,
    0xc00_0000,
    0xc00_8000,
    0xcff_fffc,
    0xd00_0000,
    0xd00_7ffc,
    0xd00_8000,
    0xd00_fffc,
    0xd01_0000,
    0x2400_0000,
    0x2500_0000,
    0x27ff_fffc,
    0x2800_0000,
    0x2800_1000,
    0x2800_2000,
    0x2900_0000,
    0x2900_1000,
    0x2900_2000,
];

/// The orders of the domain on a socket with this many `harts`. Its next cold boot begins this
/// `life`.
pub(crate) fn orders(index: usize, harts: u32, role: Role, life: u64) -> Vec<u8> {
    let other = usize::from(index == 0);
    let mut addresses = match role {
        Role::Probe => [&NOBODYS[..], &BOUNDS].concat(),
        Role::Clock => vec![CLOCK],
        _ => NOBODYS.to_vec(),
    };
    if index != 0 {
        addresses.push(CLOCK);
    }
    let foreign = MEMORY[other];
    // A probe's own program stays whole.
    addresses.retain(|address| *address != MEMORY[index] + PROGRAM);
    addresses.extend([0, PROGRAM, ORDERS, 0x3ff_f000].map(|offset| foreign + offset));
    addresses.extend([
        APLICS[other],
        APLICS[other] + 0x3000,
        FILES[other],
        FILES[other] + 0x1000,
    ]);
    if index != 0 {
        addresses.push(UART);
    }
    let device = match role {
        _ if role.is_attacker() => DEVICE,
        Role::WatchDevice => CARD,
        _ => 0,
    };
    let wire = match role {
        Role::WatchDevice => CARD_SOURCES[index],
        _ => 0,
    };
    let (role, sleep) = number(role);
    let harts = u64::from(harts);
    let head = [
        role,
        harts * other as u64,
        foreign + PROGRAM,
        APLICS[index],
        device,
        CONFIGURATION,
        harts * index as u64 + 1,
        FILES[index],
        wire,
        sleep,
        life,
        addresses.len() as u64,
    ];
    let words = head.into_iter().chain(addresses);
    words.flat_map(u64::to_le_bytes).collect()
}
