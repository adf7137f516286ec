//! Buses that differ from what the device tree says, or that cannot be fenced: the firmware starts
//! no domain.

use poorwill_tests::bridge_and;
use poorwill_tests::pair::{BRIDGE_DEVICE, BUS, Bus, CARD_DEVICE, EDU};

/// A row: what the bus has, and the console's line.
pub(crate) type Row = (&'static str, Bus, &'static str);

/// A function without addresses.
const ALONE: &str = bridge_and!("<0x00010800 0 0 0 0>");

/// One S-level IMSIC node for both sockets, as in QEMU's tree.
const JOINT_IMSIC: &str = "/ { soc { /delete-node/ interrupt-controller@29000000;
    interrupt-controller@d008000 { msi-parent = <&imsic0>; }; }; };
    &imsic0 { reg = <0 0x28000000 0 0x2000>, <0 0x29000000 0 0x2000>;
        riscv,group-index-bits = <1>; riscv,group-index-shift = <24>;
        interrupts-extended = <&{/cpus/cpu@0/interrupt-controller} 9>,
            <&{/cpus/cpu@1/interrupt-controller} 9>, <&{/cpus/cpu@2/interrupt-controller} 9>,
            <&{/cpus/cpu@3/interrupt-controller} 9>; };";

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
        "refused: wired interrupts of one source",
        Bus {
            devices: &[
                BRIDGE_DEVICE,
                "edu,bus=bridge,addr=2,dma_mask=0xffffffffff",
                CARD_DEVICE,
            ],
            functions: bridge_and!("<0x02011010 0 0x50000000 0 0x100000>"),
            ..BUS
        },
        "INTx of functions 01:02.0 (domain side0) and 00:03.0 (domain side1) raise source 35",
    ),
    (
        "refused: a joint IMSIC node",
        Bus {
            source: JOINT_IMSIC,
            ..BUS
        },
        "the IMSIC node at 0x28000000 joins groups of harts",
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
