//! A guest for tests of domains. In one role it tries to reach what is not its own, in another it
//! watches its memory and its interrupts; in others it sleeps. Rows of tests/plan.toml start both, and
//! wait for their lines.
#![no_std]
#![no_main]
#![allow(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits on this machine"
)]

mod aplic;
mod attack;
mod disk;
mod dma;
mod endure;
mod image;
mod nvme;
mod orders;
mod output;
mod probe;
mod race;
mod sleep;
mod watch;

use core::arch::global_asm;

use poorwill_bare::hart::halt;

use orders::Orders;
use output::{print, say};

// a1 = the orders.
global_asm!(
    include_str!("../../../guest/bare/start.S"),
    main = sym main,
    trapped = sym trapped,
);

/// Offset of unused memory from the orders, in bytes.
const UNUSED: u64 = 1 << 20;

/// The entry code calls this.
extern "C" fn main(_hart: usize, orders: *const Orders) -> ! {
    // SAFETY: the test has written the orders there.
    let read = unsafe { orders.read() };
    // SAFETY: the addresses follow the orders.
    let addresses = unsafe {
        core::slice::from_raw_parts(orders.add(1).cast::<u64>(), read.addresses as usize)
    };
    match read.role {
        0 => attack::run(&read, addresses),
        1 => watch::run(&read),
        2 => sleep::park(read.sleep),
        3 => sleep::master(read.sleep),
        4 => attack::reset(),
        5 => sleep::reset_amid(read.own_hart),
        6 => attack::survey(addresses),
        8 => attack::flood(),
        9 => attack::clock(addresses[0]),
        10 => {
            dma::leave_transfer(&read);
            attack::reset();
        }
        11 => attack::by_disk(&read, addresses),
        12 => dma::overflow(&read),
        13 => say(format_args!(
            "FAIL: stop answers {:#x}",
            sbi_rt::hart_stop().error
        )),
        14 => {
            // The other domain has started, and prints.
            sleep::pause(5_000_000);
            print("$ ");
        }
        15 => attack::without_device(&read, addresses),
        16 => race::run(read.own_hart, read.sleep),
        17 => sleep::storm(),
        18 => sleep::ask(read.sleep),
        19 => race::start(read.own_hart, read.sleep),
        20 => {
            sleep::enlarge(orders.addr() as u64 + UNUSED);
            sleep::master(read.sleep);
        }
        21 => {
            sleep::enlarge(orders.addr() as u64 + UNUSED);
            sleep::park(read.sleep);
        }
        22 => endure::run(&read, orders.addr() + UNUSED as usize),
        _ => {}
    }
    halt()
}

/// The entry code calls this after a trap outside of [`probe`]'s attempts.
extern "C" fn trapped(cause: usize, pc: usize, value: usize) -> ! {
    say(format_args!(
        "FAIL: trap {cause:#x} at {pc:#x}, value {value:#x}"
    ));
    halt()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say(format_args!("FAIL: {}", info.message()));
    halt()
}
