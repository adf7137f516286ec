//! The kernel that replaces the OS in the tests.
//!
//! QEMU loads this S-mode binary with `-kernel`; the firmware under test starts it. The kernel
//! command line names the case to run (`case=sleep-wake`), and QEMU's exit status is the verdict
//! (see [`verdict`]).
#![no_std]
#![no_main]

mod arch;
mod cases;
mod clock;
mod console;
mod described;
mod edu;
mod foreign;
mod fw_cfg;
mod irqchip;
mod machine;
mod memory;
mod pci;
mod random;
mod sriov;
mod state;
mod units;
mod verdict;
mod workers;

use core::arch::global_asm;

pub(crate) use console::say;
use dtoolkit::fdt::Fdt;
use machine::Machine;
pub(crate) use poorwill_bare::{mmio, read_csr, write_csr};
use poorwill_devicetree::open;
pub(crate) use verdict::check;

// The code enters the functions below. It is not in `arch`, which names nothing of this file.
global_asm!(
    include_str!("arch/entry.S"),
    main = sym main,
    work = sym work,
    fatal = sym fatal,
);

/// Where the entry code goes to, on the boot hart alone.
extern "C" fn main(hart: usize, device_tree: *const u8) -> ! {
    // SAFETY: the firmware hands on a device tree here, and nobody writes to
    // it while it is borrowed, which is until the machine is read.
    let blob = unsafe { Fdt::from_raw_unchecked(device_tree) }.data();
    let machine = match open(blob) {
        Some(tree) => Machine::from_device_tree(tree),
        None => panic!("the device tree at {device_tree:?} is damaged"),
    };
    verdict::set_up(&machine);
    let instead = machine.fw_cfg.and_then(fw_cfg::read);
    let line = instead.as_deref().unwrap_or(&machine.command_line);
    let case = machine::option_of(line, "case").unwrap_or("none");
    say!(
        "start: case {case}, hart {hart} of {:?}, RAM {:x?}",
        machine.harts,
        machine.ram
    );
    say!("machine mode's memory: {:x?}", machine.reserved);
    cases::run(case, &machine, hart);
    verdict::finish(case)
}

/// Where the entry code goes to on a hart that HSM started.
extern "C" fn work(hart: usize) -> ! {
    workers::work(hart)
}

/// Where the entry code goes to at a trap that nobody waited for.
extern "C" fn fatal(cause: usize, pc: usize, value: usize) -> ! {
    say!("FAIL: unexpected trap: scause {cause:#x}, sepc {pc:#x}, stval {value:#x}");
    verdict::exit(verdict::FAILURE)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    say!("FAIL: {info}");
    verdict::exit(verdict::FAILURE)
}
