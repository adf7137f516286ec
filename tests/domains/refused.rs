//! Buses that differ from what the device tree says, or that cannot be fenced: the firmware starts
//! no domain.

use poorwill_tests::bridge_and;
use poorwill_tests::pair::{BRIDGE_DEVICE, BUS, Bus, CARD_DEVICE, EDU};

/// A row: what the bus has, and the console's line.
pub(crate) type Row = (&'static str, Bus, &'static str);

/// A function without addresses.
const ALONE: &str = bridge_and!("<0x00010800 0 0 0 0>");

pub(crate) const ROWS: &[Row] = &[
    (
        "refused: a function is missing",
        Bus {
            devices: &[BRIDGE_DEVICE, CARD_DEVICE],
            ..BUS
        },
        "no PCI function answers at 01:01.0",
    ),
    (
        "refused: a function without a name below the bridge",
        Bus {
            devices: &[BRIDGE_DEVICE, EDU, "edu,bus=bridge,addr=2", CARD_DEVICE],
            ..BUS
        },
        "PCI function 01:02.0 is below a named bridge",
    ),
    (
        "refused: a root port",
        Bus {
            devices: &[
                "pcie-root-port,id=bridge,chassis=1,addr=1",
                "edu,bus=bridge,addr=0",
                CARD_DEVICE,
            ],
            ..BUS
        },
        "00:01.0 is a root port",
    ),
    (
        "refused: a virtio device that bypasses the IOMMU",
        Bus {
            devices: &[
                BRIDGE_DEVICE,
                "virtio-rng-pci,bus=bridge,addr=1,disable-legacy=on",
                CARD_DEVICE,
            ],
            functions: ALONE,
            ..BUS
        },
        "virtio function 01:01.0 bypasses the IOMMU",
    ),
    (
        "refused: another interrupt pin",
        Bus {
            devices: &[
                BRIDGE_DEVICE,
                "ich9-usb-uhci2,bus=bridge,addr=1",
                CARD_DEVICE,
            ],
            functions: ALONE,
            ..BUS
        },
        "PCI function 01:01.0 uses pin B",
    ),
    (
        "refused: another device ID",
        Bus {
            source: "/ { soc { pci@30000000 { iommu-map = <0 &{/soc/iommu@3010000} 0x1000 0xffff>; \
                     }; }; };",
            ..BUS
        },
        "`iommu-map` gives function 00:01.0 of domain side0 the device ID 0x1008",
    ),
];

/// A machine with a power-fail line.
pub(crate) const POWER_FAIL: Bus = Bus {
    source: "/ { power-fail { compatible = \"poorwill,power-fail\"; hold-up-us = <16000>; \
             interrupts-extended = <&{/soc/interrupt-controller@c000000} 60 4>; }; };",
    ..BUS
};
