//! Attacks by a device: QEMU's `edu`, which copies between its buffer and memory.

use core::cell::UnsafeCell;

use poorwill_bare::hart::time;

use crate::aplic::IDENTITY;
use crate::orders::Orders;
use crate::output::say;
use crate::probe::{read, spin, write};
use crate::watch;

/// Registers of the device (QEMU's docs/specs/edu.rst).
const RAISE: u64 = 0x60;
const SOURCE: u64 = 0x80;
const TARGET: u64 = 0x88;
const COUNT: u64 = 0x90;
const COMMAND: u64 = 0x98;
/// The device's buffer, by its own address.
const BUFFER: u64 = 0x4_0000;

const START: u32 = 1;
const TO_MEMORY: u32 = 1 << 1;

/// The most bytes of a transfer.
const MOST: u32 = 4096;

/// The lowest byte of the identification.
const EDU: u32 = 0xed;

/// The first BAR, and its length.
const BAR: u64 = 0x10;
const BAR_BYTES: u64 = 1 << 20;
/// Time in which a watcher looks at everything once, in units of 100 ns.
const LOOK: u64 = 200_000;

/// The command register of configuration space, and its bits for memory and DMA. The status above
/// it tells whether the function raises INTx.
const PCI_COMMAND: u64 = 4;
const ACTIVE: u32 = 0b110;
const INTX: u32 = 1 << 19;

/// Limit of a transfer, in units of 100 ns.
const LIMIT: u64 = 20_000_000;

const WORDS: usize = 16;
const BYTES: u32 = 8 * WORDS as u32;

#[repr(C, align(128))]
struct Block(UnsafeCell<[u64; WORDS]>);

// SAFETY: one hart uses it.
unsafe impl Sync for Block {}

static OWN: Block = Block(UnsafeCell::new([0; WORDS]));

impl Block {
    fn address(&self) -> u64 {
        self.0.get().expose_provenance() as u64
    }

    fn fill(&self, value: u64) {
        for place in 0..WORDS {
            // SAFETY: within the block. The device reads it later.
            unsafe { self.0.get().cast::<u64>().add(place).write_volatile(value) };
        }
    }

    fn has(&self, value: u64) -> bool {
        (0..WORDS).all(|place| {
            // SAFETY: within the block. The device wrote it before.
            unsafe { self.0.get().cast::<u64>().add(place).read_volatile() == value }
        })
    }
}

/// Starts a transfer, which the device makes 100 ms later.
fn begin(device: u64, from: u64, to: u64, count: u32, command: u32) {
    for (register, value) in [(SOURCE, from), (TARGET, to)] {
        write(device + register, value as u32);
        write(device + register + 4, (value >> 32) as u32);
    }
    write(device + COUNT, count);
    write(device + COUNT + 4, 0);
    write(device + COMMAND, command | START);
    write(device + COMMAND + 4, 0);
}

/// Runs one transfer. Returns whether it ended.
fn transfer(device: u64, from: u64, to: u64, count: u32, command: u32) -> bool {
    begin(device, from, to, count, command);
    let end = time() + LIMIT;
    while time() < end {
        if read(device + COMMAND) & START == 0 {
            return true;
        }
    }
    false
}

fn to_memory(device: u64, address: u64, count: u32) -> bool {
    transfer(device, BUFFER, address, count, TO_MEMORY)
}

fn from_memory(device: u64, address: u64) -> bool {
    transfer(device, address, BUFFER, BYTES, 0)
}

/// Lets the device reach its own domain's memory, and then everything else. Returns the number of
/// failures.
pub(crate) fn run(orders: &Orders, addresses: &[u64]) -> usize {
    let device = orders.device;
    if device == 0 {
        return 0;
    }
    write(orders.configuration + PCI_COMMAND, ACTIVE);
    let mut failed = usize::from(!reaches_own(device));
    failed += usize::from(reads_foreign(device, orders));
    // The watcher looks for these.
    OWN.fill(IDENTITY as u64);
    let mut is_done = from_memory(device, OWN.address());
    for address in addresses
        .iter()
        .chain([&watch::block_in(orders.foreign_memory)])
    {
        is_done &= to_memory(device, *address, 4);
    }
    // An INTx that the device's driver does not expect, without messages.
    write(device + RAISE, 1);
    if read(orders.configuration + PCI_COMMAND) & INTX == 0 {
        say(format_args!("FAIL: the device raises no INTx"));
        failed += 1;
    }
    failed += usize::from(!moves(orders, addresses));
    if !is_done {
        say(format_args!("FAIL: a transfer does not end"));
    }
    failed + usize::from(!is_done)
}

/// Lets the device be refused more often, in one transfer, than the IOMMU's queue has records. Then
/// the firmware takes the records in the domain's calls, and the device is refused once more.
pub(crate) fn overflow(orders: &Orders) {
    let device = orders.device;
    write(orders.configuration + PCI_COMMAND, ACTIVE);
    let block = watch::block_in(orders.foreign_memory);
    let mut is_good = reaches_own(device) && to_memory(device, block, MOST);
    call_for(EMPTIED);
    is_good &= to_memory(device, block + LATER, 4);
    call_for(EMPTIED);
    is_good &= reaches_own(device);
    say(format_args!(
        "{}: its own DMA works after an overflow",
        if is_good { "overflowed" } else { "FAIL" }
    ));
}

/// Time in which the firmware takes all records, and may print further lines, in units of 100 ns.
const EMPTIED: u64 = 15_000_000;
/// The last refused access's offset in the watched block.
const LATER: u64 = 0x8000;

/// Makes calls for this time.
fn call_for(ticks: u64) {
    let end = time() + ticks;
    while time() < end {
        core::hint::black_box(sbi_rt::get_spec_version());
    }
}

/// Starts a transfer to the domain's own memory, and does not wait for it. The IOMMU has used the
/// device's context by then.
pub(crate) fn leave_transfer(orders: &Orders) {
    write(orders.configuration + PCI_COMMAND, ACTIVE);
    if !reaches_own(orders.device) {
        return;
    }
    begin(orders.device, BUFFER, OWN.address(), BYTES, TO_MEMORY);
}

/// Moves the device over all addresses that its BAR can hold, and back. Returns whether it is there
/// again.
fn moves(orders: &Orders, addresses: &[u64]) -> bool {
    let bar = orders.configuration + BAR;
    let aligned = (addresses.iter()).filter(|address| address.is_multiple_of(BAR_BYTES));
    for address in aligned {
        write(bar, *address as u32);
        spin(LOOK);
    }
    write(bar, orders.device as u32);
    let is_back = read(orders.device) & 0xff == EDU;
    if !is_back {
        say(format_args!("FAIL: the device is not back"));
    }
    is_back
}

/// Returns whether the device copies within its domain's memory.
fn reaches_own(device: u64) -> bool {
    const SENT: u64 = 0x5e47;
    OWN.fill(SENT);
    let is_out = from_memory(device, OWN.address());
    OWN.fill(0);
    let reaches = is_out && to_memory(device, OWN.address(), BYTES) && OWN.has(SENT);
    if !reaches {
        say(format_args!(
            "FAIL: the device does not reach its own domain"
        ));
    }
    reaches
}

/// Returns whether the device reads the other domain's program, which is the same as this one's.
fn reads_foreign(device: u64, orders: &Orders) -> bool {
    const BEFORE: u64 = 0xbef0;
    OWN.fill(BEFORE);
    let is_set = from_memory(device, OWN.address());
    let is_read = from_memory(device, orders.foreign_memory);
    let is_back = to_memory(device, OWN.address(), BYTES);
    let program = crate::image::start();
    let is_same = (0..WORDS).all(|place| {
        // SAFETY: within the block, and within the program.
        unsafe {
            let found = OWN.0.get().cast::<u64>().add(place).read_volatile();
            found == program.add(place).read_volatile()
        }
    });
    let leaks = !(is_set && is_read && is_back) || is_same;
    if leaks {
        say(format_args!("FAIL: the device reads another domain"));
    }
    leaks
}
