//! Tests of `cut check`, on a model of Linux's files.

mod common;

use std::fs;

use common::Machine;

/// A PCI function's configuration space, as sysfs shows it to root.
struct Function {
    name: &'static str,
    id: u32,
    class: u32,
    command: u32,
    /// For a bridge, the number of its secondary bus.
    behind: Option<u8>,
}

const NVME: Function = Function {
    name: "0000:00:02.0",
    id: 0x0010_1b36,
    class: 0x01_08_02,
    command: 6,
    behind: None,
};

const VIRTIO_NET: Function = Function {
    name: "0000:00:01.0",
    id: 0x1041_1af4,
    class: 0x02_00_00,
    ..NVME
};

impl Function {
    fn add(&self, machine: &Machine) {
        let mut config = [0; 256];
        let mut set = |register: usize, value: u32| {
            config[register..register + 4].copy_from_slice(&value.to_le_bytes());
        };
        set(0, self.id);
        set(4, self.command);
        set(8, self.class << 8);
        if let Some(bus) = self.behind {
            set(0xc, 1 << 16);
            let own = u32::from_str_radix(&self.name[5..7], 16).unwrap();
            set(0x18, u32::from(bus) << 16 | u32::from(bus) << 8 | own);
        }
        let folder = machine.path("pci").join(self.name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config"), config).unwrap();
    }
}

/// Adds a virtio device at the address `place`, with this device status.
fn add_virtio(machine: &Machine, place: &str, status: u32) {
    let folder = machine
        .path("platform")
        .join(format!("{place}.virtio_mmio/virtio0"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("status"), format!("{status:#010x}\n")).unwrap();
}

fn armed() -> Machine {
    let machine = Machine::new();
    fs::write(
        machine.path("cut"),
        b"armed hold_up_us=16000 stop_us=900\0\0",
    )
    .unwrap();
    machine
}

const NOT_A_CUT: &str = "poorwill-guest: a power failure now would not be a cut\n";

#[test]
fn nothing_is_in_the_way_of_what_has_a_keeper() {
    let machine = armed();
    NVME.add(&machine);
    let bridge = Function {
        name: "0001:00:01.0",
        id: 0x000c_1b36,
        class: 0x06_04_00,
        behind: Some(1),
        ..NVME
    };
    bridge.add(&machine);
    let idle = Function {
        name: "0001:01:00.0",
        command: 0,
        ..VIRTIO_NET
    };
    idle.add(&machine);
    // Linux has found the device, and has no driver for it.
    add_virtio(&machine, "10007000", 1);
    let outcome = machine.run(&["cut", "check"]);
    outcome.says(0, &[], &[]);
    assert_eq!(
        outcome.out,
        "firmware     armed hold_up_us=16000 stop_us=900\nin the way   no obstacle found\n"
    );
}

#[test]
fn all_that_is_in_the_way_is_told() {
    let machine = armed();
    NVME.add(&machine);
    VIRTIO_NET.add(&machine);
    // A function behind a bridge of another domain, whose first bus is not 0.
    let bridge = Function {
        name: "0001:20:01.0",
        id: 0x000c_1b36,
        class: 0x06_04_00,
        behind: Some(0x21),
        ..NVME
    };
    bridge.add(&machine);
    let other = Function {
        name: "0001:21:03.0",
        ..VIRTIO_NET
    };
    other.add(&machine);
    // A function without access to memory.
    let serial = Function {
        name: "0000:00:04.0",
        id: 0x0002_1b36,
        class: 0x07_00_02,
        command: 1,
        ..NVME
    };
    serial.add(&machine);
    add_virtio(&machine, "10008000", 0xf);
    add_virtio(&machine, "10007000", 0x3);
    fs::create_dir_all(machine.path("iommus/riscv-iommu@3010000.riscv-iommu")).unwrap();
    let outcome = machine.run(&["cut", "check"]);
    let in_the_way =
        |what: &str| format!("in the way   {what} is in use, and the firmware cannot restore it\n");
    let wanted: String = [
        "the PCI function 00:01.0",
        "the PCI function 21:03.0",
        "the PCI function 00:04.0",
        "the device at 0x10007000",
        "the device at 0x10008000",
        "the IOMMU riscv-iommu@3010000.riscv-iommu",
    ]
    .map(in_the_way)
    .concat();
    assert_eq!(outcome.err, NOT_A_CUT);
    assert_eq!(outcome.status, 1);
    let lines: Vec<_> = outcome.out.lines().collect();
    let mut sorted = lines[1..].to_vec();
    sorted.sort_unstable();
    let mut expected: Vec<_> = wanted.lines().collect();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
}

#[test]
fn what_the_firmware_has_told_is_in_the_way_too() {
    let machine = Machine::new();
    let outcome = machine.run(&["cut", "check"]);
    outcome.says(
        1,
        &["in the way   the firmware found no power-fail line"],
        &[NOT_A_CUT],
    );
    fs::write(
        machine.path("cut"),
        b"armed hold_up_us=16000 stop_us=900 slow_disks=1\0",
    )
    .unwrap();
    let outcome = machine.run(&["cut", "check"]);
    let slow = "in the way   a disk may take longer to write its cache";
    outcome.says(1, &["slow_disks=1\n", slow], &[NOT_A_CUT]);
    let reason = "not armed: the device tree does not name the caches of all harts";
    fs::write(machine.path("cut"), format!("{reason}\0\0")).unwrap();
    let outcome = machine.run(&["cut", "check"]);
    outcome.says(1, &[&format!("in the way   {reason}\n")], &[NOT_A_CUT]);
}

#[test]
fn what_cannot_be_looked_at_is_an_error() {
    let machine = armed();
    NVME.add(&machine);
    // The part of a function's configuration space that users other than root see.
    let config = machine.path("pci").join(NVME.name).join("config");
    fs::write(config, []).unwrap();
    let outcome = machine.run(&["cut", "check"]);
    outcome.says(1, &[], &["run it as root"]);
    assert!(!outcome.out.contains("nothing"));
}
