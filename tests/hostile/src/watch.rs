//! The watcher: its memory, its interrupt file and its device stay as they are.

use core::cell::UnsafeCell;

use poorwill_bare::{aplic, hart::time, read_csr, write_csr};

use crate::aplic::IDENTITY;
use crate::orders::Orders;
use crate::output::say;
use crate::probe::{clear_pending, is_pending, read, takes_external, write};

/// How long it watches, in units of 100 ns.
const WATCH: u64 = 60_000_000;

/// The register of QEMU's `edu` that inverts its value (docs/specs/edu.rst), and a value.
const LIVENESS: u64 = 4;
const ALIVE: u32 = 0x1357_9bdf;
/// The registers of QEMU's `edu` that raise and lower its INTx.
const RAISE: u64 = 0x60;
const LOWER: u64 = 0x64;
/// Limit of a wait for the interrupt, in units of 100 ns.
const LIMIT: u64 = 10_000_000;

const WORDS: usize = 8192;

struct Block(UnsafeCell<[u64; WORDS]>);

// SAFETY: one hart uses it.
unsafe impl Sync for Block {}

static BLOCK: Block = Block(UnsafeCell::new([0; WORDS]));

/// The address of the watched block in another domain with this program.
pub(crate) fn block_in(program: u64) -> u64 {
    let offset = BLOCK.0.get().addr() - crate::image::start().addr();
    program + offset as u64
}

/// A word that depends on its place.
fn pattern(place: usize) -> u64 {
    (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fills the block, and a register that nothing uses.
pub(crate) fn fill() {
    write_csr!("sscratch", pattern(WORDS) as usize);
    let block = BLOCK.0.get().cast::<u64>();
    for place in 0..WORDS {
        // SAFETY: within the block, which this hart alone uses.
        unsafe { block.add(place).write_volatile(pattern(place)) };
    }
}

/// The number of words of both that are not as they were filled.
pub(crate) fn changed() -> usize {
    let block = BLOCK.0.get().cast::<u64>();
    let is_changed = |place: &usize| {
        // SAFETY: as above.
        let word = unsafe { block.add(*place).read_volatile() };
        word != pattern(*place)
    };
    let of_register = read_csr!("sscratch") as u64 != pattern(WORDS);
    (0..WORDS).filter(is_changed).count() + usize::from(of_register)
}

/// Watches for six seconds, and says what it has seen.
pub(crate) fn run(orders: &Orders) {
    let device = orders.device;
    fill();
    if device != 0 {
        write(device + LIVENESS, ALIVE);
    }
    match orders.wire {
        0 => say(format_args!("watching")),
        source => {
            let is_seen = sees_wired(orders);
            let sees = if is_seen { "watching" } else { "FAIL: blind" };
            say(format_args!("{sees}: wired source {source}"));
        }
    }
    let end = time() + WATCH;
    let mut words_changed = 0;
    let mut pending = false;
    while time() < end {
        words_changed += changed();
        words_changed += usize::from(device != 0 && read(device + LIVENESS) != !ALIVE);
        pending |= match orders.file {
            0 => takes_external(),
            _ => is_pending(IDENTITY),
        };
    }
    let is_intact = words_changed == 0 && !pending;
    say(format_args!(
        "{}: {words_changed} words changed, pending={pending}",
        if is_intact { "intact" } else { "FAIL" }
    ));
}

/// Listens to the wired source of the device. Returns whether the watcher sees an interrupt that the
/// device raises, and none after that.
fn sees_wired(orders: &Orders) -> bool {
    aplic::route(orders.aplic as usize, orders.wire as u32, 0, IDENTITY);
    write(orders.device + RAISE, 1);
    let end = time() + LIMIT;
    while time() < end && !is_pending(IDENTITY) {}
    let is_seen = is_pending(IDENTITY);
    write(orders.device + LOWER, 1);
    clear_pending(IDENTITY);
    is_seen && !is_pending(IDENTITY)
}
