//! The watcher: its memory, its interrupt file and its device stay as they are.

use core::cell::UnsafeCell;

use crate::probe::{read, read_file, time, write};
use crate::{IDENTITY, Orders, aplic, say};

/// EIP registers: pending bits, 64 identities each (AIA, 3.8.3).
const EIP0: usize = 0x80;

/// How long it watches, in units of 100 ns.
const WATCH: u64 = 60_000_000;

/// The register of QEMU's `edu` that inverts its value (docs/specs/edu.rst), and a value.
const LIVENESS: u64 = 4;
const ALIVE: u32 = 0x1357_9bdf;
/// The source of the device's INTx, which it does not raise.
const SOURCE: u64 = 35;

const WORDS: usize = 8192;

struct Block(UnsafeCell<[u64; WORDS]>);

// SAFETY: one hart uses it.
unsafe impl Sync for Block {}

static BLOCK: Block = Block(UnsafeCell::new([0; WORDS]));

/// The address of the watched block in another domain with this program.
pub(crate) fn block_in(program: u64) -> u64 {
    let offset = BLOCK.0.get().addr() - crate::start().addr();
    program + offset as u64
}

/// A word that depends on its place.
fn pattern(place: usize) -> u64 {
    (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Watches for six seconds, and says what it has seen.
pub(crate) fn run(orders: &Orders) {
    let device = orders.device;
    let block = BLOCK.0.get().cast::<u64>();
    for place in 0..WORDS {
        // SAFETY: within the block, which this hart alone uses.
        unsafe { block.add(place).write_volatile(pattern(place)) };
    }
    if device != 0 {
        aplic::listen(orders.aplic, SOURCE);
        write(device + LIVENESS, ALIVE);
    }
    say(format_args!("watching"));
    let end = time() + WATCH;
    let mut changed = 0;
    let mut pending = false;
    while time() < end {
        for place in 0..WORDS {
            // SAFETY: as above.
            let word = unsafe { block.add(place).read_volatile() };
            changed += usize::from(word != pattern(place));
        }
        changed += usize::from(device != 0 && read(device + LIVENESS) != !ALIVE);
        pending |= read_file(EIP0 + IDENTITY / 64 * 2) >> (IDENTITY % 64) & 1 != 0;
    }
    let is_intact = changed == 0 && !pending;
    say(format_args!(
        "{}: {changed} words changed, pending={pending}",
        if is_intact { "intact" } else { "FAIL" }
    ));
}
