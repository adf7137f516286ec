//! The program `poorwill-guest`: calls the library, and ends with its exit status.
#![no_std]
#![no_main]

use core::fmt::Write;

use arrayvec::ArrayVec;
use poorwill_guest::{Places, run};
use poorwill_guest_entry::{Arguments, STDERR, STDOUT, Stream, exit};

const PLACES: Places<'static> = Places {
    blocks: "/sys/class/block",
    nodes: "/dev",
    told: "/proc/device-tree/chosen/poorwill,boot",
    log: "/proc/device-tree/chosen/poorwill,log",
    cut: "/proc/device-tree/chosen/poorwill,cut",
    domain: "/proc/device-tree/chosen/poorwill,domain",
    pci: "/sys/bus/pci/devices",
    pci_drivers: "/sys/bus/pci/drivers",
    virtio_drivers: "/sys/bus/virtio/drivers",
    platform: "/sys/bus/platform/devices",
    iommus: "/sys/class/iommu",
    mounts: "/proc/self/mounts",
    swaps: "/proc/swaps",
    power: "/sys/power/state",
};

poorwill_guest_entry::start!(main);

/// Returns the exit status.
fn main(arguments: Arguments) -> u8 {
    // No command takes four arguments, so a fourth one is refused, and further ones need not be
    // read.
    let words: ArrayVec<&str, 4> = (1..5)
        .map_while(|index| arguments.get(index))
        // An argument that is not text matches no command.
        .map(|word| word.to_str().unwrap_or("?"))
        .collect();
    run(&words, &PLACES, &mut Stream(STDOUT), &mut Stream(STDERR))
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _nobody_listens = writeln!(Stream(STDERR), "poorwill-guest: {info}");
    exit(101)
}
