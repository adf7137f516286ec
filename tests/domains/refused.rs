//! Buses that differ from what the device tree says, or that cannot be fenced: the firmware starts
//! no domain.

use poorwill_tests::bridge_and;
use poorwill_tests::pair::{BRIDGE_DEVICE, BUS, Bus, CARD_DEVICE, EDU};

/// A row: what the bus has, the console's lines, and how the machine ends.
pub(crate) type Row = (&'static str, Bus, &'static [&'static str], Ending);

/// How a machine with a refused partition ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It switches itself off after one start.
    Off,
    /// It switches itself off after some resets: a device that does not answer may come up.
    OffAfterResets,
    /// It halts after one start, since it has no register for power-off.
    Halt,
}

/// Faults of several kinds: a joint IMSIC node, other device IDs, a next stage in foreign memory.
const MANY: &str = "/ { soc { /delete-node/ interrupt-controller@29000000;
        interrupt-controller@d008000 { msi-parent = <&imsic0>; }; }; };
    &imsic0 { reg = <0 0x28000000 0 0x2000>, <0 0x29000000 0 0x2000>;
        riscv,group-index-bits = <1>; riscv,group-index-shift = <24>;
        interrupts-extended = <&{/cpus/cpu@0/interrupt-controller} 9>,
            <&{/cpus/cpu@1/interrupt-controller} 9>, <&{/cpus/cpu@2/interrupt-controller} 9>,
            <&{/cpus/cpu@3/interrupt-controller} 9>; };
    / { soc { pci@30000000 { iommu-map = <0 &{/soc/iommu@3010000} 0x1000 0xffff>; }; };
        chosen { opensbi-domains { side1 { next-addr = <0x0 0x80000000>; }; }; }; };";

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

/// A wrong mode, on a machine without a register for power-off.
const HALTING: &str =
    "/ { /delete-node/ poweroff; chosen { opensbi-domains { side0 { next-mode = <3>; }; }; }; };";

pub(crate) const ROWS: &[Row] = &[
    (
        "refused: a function is missing",
        Bus {
            devices: &[BRIDGE_DEVICE, CARD_DEVICE],
            ..BUS
        },
        &["no PCI function answers at 01:01.0"],
        Ending::OffAfterResets,
    ),
    (
        "refused: a function without a name below the bridge",
        Bus {
            devices: &[BRIDGE_DEVICE, EDU, "edu,bus=bridge,addr=2", CARD_DEVICE],
            ..BUS
        },
        &["PCI function 01:02.0 is below a named bridge"],
        Ending::Off,
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
        &["00:01.0 is a root port"],
        Ending::Off,
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
        &["virtio function 01:01.0 bypasses the IOMMU"],
        Ending::Off,
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
        &["PCI function 01:01.0 uses pin B"],
        Ending::Off,
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
        &["INTx of functions 01:02.0 (domain side0) and 00:03.0 (domain side1) raise source 35"],
        Ending::Off,
    ),
    (
        "refused: a joint IMSIC node",
        Bus {
            source: JOINT_IMSIC,
            ..BUS
        },
        &[
            "the IMSIC node at 0x28000000 joins groups of harts",
            "domain side0 has the APLIC at 0xd000000, which delivers to harts of domain side1",
            "domain side1 has the APLIC at 0xd008000, which delivers to harts of domain side0",
        ],
        Ending::Off,
    ),
    (
        "refused: another device ID",
        Bus {
            source: "/ { soc { pci@30000000 { iommu-map = <0 &{/soc/iommu@3010000} 0x1000 0xffff>; \
                     }; }; };",
            ..BUS
        },
        &[
            "`iommu-map` gives function 00:01.0 of domain side0 the device ID 0x1008",
            "`iommu-map` gives function 01:01.0 of domain side0 the device ID 0x1108",
            "`iommu-map` gives function 00:03.0 of domain side1 the device ID 0x1018",
        ],
        Ending::Off,
    ),
    (
        "refused: all reasons are named at once",
        Bus {
            source: MANY,
            ..BUS
        },
        &[
            "the IMSIC node at 0x28000000 joins groups of harts",
            "domain side0 has the APLIC at 0xd000000, which delivers to harts of domain side1",
            "domain side1 has the APLIC at 0xd008000, which delivers to harts of domain side0",
            "`iommu-map` gives function 00:01.0 of domain side0 the device ID 0x1008",
            "`iommu-map` gives function 01:01.0 of domain side0 the device ID 0x1108",
            "`iommu-map` gives function 00:03.0 of domain side1 the device ID 0x1018",
            "domain side1: its next stage at 0x80000000 is not in its memory",
        ],
        Ending::Off,
    ),
    (
        "refused: a machine without power-off halts",
        Bus {
            source: HALTING,
            ..BUS
        },
        &["domain side0: `next-mode` is 3"],
        Ending::Halt,
    ),
];

/// A machine with a power-fail line.
pub(crate) const POWER_FAIL: Bus = Bus {
    source: "/ { power-fail { compatible = \"poorwill,power-fail\"; hold-up-us = <16000>; \
             interrupts-extended = <&{/soc/interrupt-controller@c000000} 60 4>; }; };",
    ..BUS
};
