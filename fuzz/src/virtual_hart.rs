//! A virtual hart with hostile registers, page tables and instructions, and the states that a hart
//! can have. The targets of the interpreter and of translated code share it.

use poorwill_translate::fake::{DEVICE, FakeHost, RAM};
use poorwill_translate::{Features, Host, Mode, VirtualHart};

use crate::{Cases, Input};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pages of the OS's memory.
pub const PAGES: u64 = 16;
/// The page that is machine mode's.
pub const KEPT: u64 = RAM + 5 * PAGE;
/// Pages for tables, the first ones.
pub const TABLES: u64 = 5;
/// The page where the input's last bytes are.
pub const CODE: u64 = RAM + 8 * PAGE;

/// Memory without contents, and a hart with hostile features and registers.
#[must_use]
pub fn draw(input: &mut Input<'_>) -> (FakeHost, VirtualHart) {
    let host = FakeHost::new(PAGES);
    host.keep(KEPT);
    let mut hart = VirtualHart::new();
    hart.features = features(input);
    hart.mode = [Mode::Supervisor, Mode::User][input.below(2) as usize];
    registers(input, &mut hart);
    (host, hart)
}

/// Puts the rest of the input into the page for it.
pub fn put_code(input: Input<'_>, host: &FakeHost) {
    for (at, byte) in (CODE..CODE + PAGE).zip(input.take_rest()) {
        host.store(at, 1, (*byte).into());
    }
}

fn features(input: &mut Input<'_>) -> Features {
    let bits: u16 = input.any();
    let is_set = |bit: u32| bits >> bit & 1 != 0;
    Features {
        modes: 1 | (bits & 7) << 8,
        space_mask: if is_set(3) { 0xffff } else { 0xff },
        float: is_set(4),
        sstc: is_set(5),
        sets_accessed: is_set(6),
        page_types: is_set(7),
        zero_block: is_set(8).then(|| 1 << (bits >> 9 & 15).min(12)),
        counters: u64::from(bits >> 13),
        counters_at_start: 0,
        environment: u64::from(bits >> 15),
        identity: [0; 3],
    }
}

/// An address of memory, of what is beside it, or any.
fn address(input: &mut Input<'_>) -> u64 {
    let page = match input.below(8) {
        0 => DEVICE,
        1 => KEPT,
        2 => return input.edgy(),
        _ => RAM + PAGE * input.below(PAGES),
    };
    let offset = [0, 8, PAGE - 2, PAGE - 4, PAGE - 1][input.below(5) as usize];
    page + offset
}

fn registers(input: &mut Input<'_>, hart: &mut VirtualHart) {
    for register in 1..32 {
        hart.x[register] = match input.below(4) {
            0 => 0,
            1 => input.edgy(),
            _ => address(input),
        };
    }
    let floats: u64 = input.any();
    hart.f = core::array::from_fn(|number| floats.rotate_left(number as u32));
    let float = if hart.features.float { 3 << 13 } else { 0 };
    let csrs = &mut hart.csrs;
    // SIE, SPIE, SPP, SUM, MXR; both modes have 64 bits.
    csrs.sstatus = 2 << 32 | input.any::<u64>() & (1 << 1 | 1 << 5 | 1 << 8 | 3 << 18 | float);
    csrs.sie = input.any::<u64>() & (1 << 1 | 1 << 5 | 1 << 9);
    csrs.stvec = address(input) & !3 | input.below(2);
    csrs.sepc = address(input) & !1;
    csrs.deadline = input.below(64);
    csrs.software_interrupt = input.any();
    hart.pc = match input.below(4) {
        0 => address(input) & !1,
        _ => CODE,
    };
}

/// An entry of a table: a pointer, a leaf, or anything.
pub fn entry(input: &mut Input<'_>) -> u64 {
    let page = match input.below(8) {
        0 => DEVICE,
        1 => KEPT,
        2 => CODE,
        3 => input.edgy() & ((1 << 56) - 1),
        number => RAM + PAGE * (number - 3 + 4 * input.below(3)),
    };
    let flags = match input.below(8) {
        0..3 => 1,
        3..6 => 0xcf,
        6 => input.below(256) | 1,
        _ => return input.any(),
    };
    page >> 2 & !0x3ff | flags
}

/// Fills tables; each one also maps the code's own place, where an address has it.
pub fn fill_tables(input: &mut Input<'_>, host: &FakeHost, hart: &mut VirtualHart) {
    let mode = [0, 8, 9, 10][input.below(4) as usize];
    if hart.features.modes >> mode & 1 == 0 || mode == 0 {
        return;
    }
    let root = match input.below(16) {
        0 => (address(input) / PAGE) & ((1 << 44) - 1),
        _ => RAM / PAGE,
    };
    hart.csrs.satp = mode << 60 | input.below(4) << 44 | root;
    for table in (0..TABLES).map(|number| RAM + PAGE * number) {
        for level in 0..5 {
            let place = CODE >> (12 + 9 * level) & 511;
            let value = entry(input);
            host.store(table + 8 * place, 8, value);
        }
    }
    for _ in 0..input.below(16) {
        let place = RAM + PAGE * input.below(TABLES) + 8 * input.below(512);
        let value = entry(input);
        host.store(place, 8, value);
    }
}

/// Asserts that the state is one that a hart can have.
///
/// # Panics
///
/// If it is not.
pub fn check(hart: &VirtualHart) {
    let csrs = &hart.csrs;
    assert_eq!(hart.x[0], 0);
    assert_eq!((hart.pc | csrs.sepc) & 1, 0);
    assert!(hart.features.modes >> (csrs.satp >> 60) & 1 != 0);
    assert_eq!(csrs.satp >> 44 & 0xffff & !hart.features.space_mask, 0);
    let float = if hart.features.float { 3 << 13 } else { 0 };
    let changeable = 1 << 1 | 1 << 5 | 1 << 8 | 3 << 18 | float;
    assert_eq!(csrs.sstatus & !changeable, 2 << 32);
    assert_eq!(csrs.sie & !(1 << 1 | 1 << 5 | 1 << 9), 0);
    assert!(csrs.stvec & 3 < 2 && csrs.fcsr <= 0xff);
    assert_eq!(csrs.scounteren & !hart.features.counters, 0);
    assert_eq!(csrs.senvcfg & !hart.features.environment, 0);
}
