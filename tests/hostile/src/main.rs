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
mod nvme;
mod probe;
mod race;
mod sleep;
mod watch;

use core::arch::global_asm;
use core::fmt;

use poorwill_bare::console;
use poorwill_bare::hart::halt;

// a1 = the orders.
global_asm!(
    include_str!("../../../guest/bare/start.S"),
    main = sym main,
    trapped = sym trapped,
);

/// The guest's orders, at the address in its second argument. Words are little-endian.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Orders {
    /// 0: attack; 1: watch; 2: park again and again; 3: put the machine to sleep again and again; 4:
    /// end by a reset; 5: the same while another hart asks for a sleep; 6: try each
    /// address, and say what the accesses raise; 7: do nothing; 8: flood the console;
    /// 9: read the clock at the first address, and try to set its alarm; 10: end while the
    /// device writes; 11: attack by a disk; 12: raise more refused accesses than the IOMMU's queue
    /// holds; 13: stop the domain's only hart that runs; 14: begin a line on the console, and do not
    /// end it; 15: attack without a device; 16: park while two harts start each
    /// other; 17: park and wake without a pause; 18: ask for the machine's sleep a number of times,
    /// and say how long the longest refusal took.
    pub(crate) role: u64,
    /// A hart of another domain.
    pub(crate) foreign_hart: u64,
    /// Memory of another domain.
    pub(crate) foreign_memory: u64,
    /// The domain's own APLIC.
    pub(crate) aplic: u64,
    /// Registers of the domain's PCI function; 0 without one.
    pub(crate) device: u64,
    /// Its configuration space.
    pub(crate) configuration: u64,
    /// Another hart of the domain.
    pub(crate) own_hart: u64,
    /// The interrupt file of the domain's first hart; 0: the domain takes no external interrupts.
    pub(crate) file: u64,
    /// The wired source of a watcher's PCI function; 0 without one.
    pub(crate) wire: u64,
    /// Time of a sleep until its timer is due, in units of 100 ns; or the number of refusals.
    pub(crate) sleep: u64,
    /// Number of addresses that follow.
    pub(crate) addresses: u64,
}

/// External interrupt that attacks raise.
pub(crate) const IDENTITY: usize = 77;

unsafe extern "C" {
    #[link_name = "_start"]
    static START: u64;
}

/// The program's first word.
pub(crate) fn start() -> *const u64 {
    &raw const START
}

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

/// Prints a line by DBCN; a call takes a part of it.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    print(&console::line::<160>(text));
}

/// Prints text by DBCN.
fn print(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[console::write(rest).unwrap_or(0).min(rest.len())..];
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say(format_args!("FAIL: {}", info.message()));
    halt()
}
