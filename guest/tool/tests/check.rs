//! Tests of `check`, on a model of Linux's files.

mod common;

use std::fs;

use common::Machine;

/// Binds a device to a driver. sysfs has links there; only their names count.
fn bind(machine: &Machine, bus: &str, driver: &str, device: &str) {
    let folder = machine.path(bus).join(driver);
    fs::create_dir_all(&folder).unwrap();
    // Not a device.
    fs::write(folder.join("uevent"), "").unwrap();
    fs::write(folder.join(device), "").unwrap();
}

#[test]
fn drivers_that_suspend_are_not_named() {
    let machine = Machine::new();
    let bound = [
        ("pci_drivers", "virtio-pci", "0000:00:01.0"),
        ("pci_drivers", "ahci", "0000:00:02.0"),
        ("pci_drivers", "nvme", "0000:00:03.0"),
        ("virtio_drivers", "virtio_blk", "virtio0"),
        ("virtio_drivers", "virtio_net", "virtio1"),
    ];
    for (bus, driver, device) in bound {
        bind(&machine, bus, driver, device);
    }
    // A driver without a device loses nothing.
    fs::create_dir_all(machine.path("virtio_drivers/9pnet_virtio")).unwrap();
    fs::write(machine.path("virtio_drivers/9pnet_virtio/bind"), "").unwrap();
    let none = "no driver without a suspend is in use\n";
    machine.run(&["check"]).says(0, &[none], &[]);
    Machine::new().run(&["check"]).says(0, &[none], &[]);
}

#[test]
fn drivers_without_a_suspend_are_named_with_their_devices() {
    let machine = Machine::new();
    bind(&machine, "pci_drivers", "sym53c8xx", "0000:00:03.0");
    bind(&machine, "pci_drivers", "sym53c8xx", "0001:02:00.0");
    bind(&machine, "virtio_drivers", "9pnet_virtio", "virtio3");
    bind(&machine, "virtio_drivers", "virtio_gpu", "virtio4");
    machine.run(&["check"]).says(
        1,
        &[
            "loses state  0000:00:03.0: sym53c8xx has no suspend: unload it before a sleep\n",
            "loses state  0001:02:00.0: sym53c8xx ",
            "loses state  virtio3: 9pnet_virtio ",
            "loses state  virtio4: virtio_gpu ",
        ],
        &["a sleep without power would lose the state of devices: see above\n"],
    );
}
