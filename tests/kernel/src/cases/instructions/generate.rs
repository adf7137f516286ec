//! Pages of random instructions.
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out on purpose"
)]

use crate::{arch::sandbox::Mode, random::Random};

/// Half-words in a page.
pub(super) const HALVES: usize = 2048;

/// A page of them, each of 16 bits or more.
pub(super) type Page = [u16; HALVES];

/// `c.nop`, which takes the place of what must not be executed.
const NOTHING: u16 = 0x0001;

/// Fills the page for a mode.
pub(super) fn fill(page: &mut Page, random: &mut Random, mode: Mode) {
    let mut at = 0;
    while at < HALVES {
        let word = instruction(random);
        let [low, high] = [word & 0xffff, word >> 16].map(|half| half as u16);
        page[at] = low;
        at += 1;
        if is_long(low) && at < HALVES {
            page[at] = high;
            at += 1;
        }
    }
    keep_control(page, mode);
}

/// The bytes of the instruction that begins at this offset of the page.
pub(super) fn length(page: &Page, offset: usize) -> usize {
    if is_long(page[offset / 2]) { 4 } else { 2 }
}

/// The instruction from this half-word on.
pub(super) fn bits(page: &Page, at: usize) -> u32 {
    let low = u32::from(page[at]);
    if is_long(page[at]) {
        u32::from(page[at + 1]) << 16 | low
    } else {
        low
    }
}

fn is_long(half: u16) -> bool {
    half & 3 == 3
}

/// Takes out what the mode must not execute, wherever a jump may lead: any two neighbours may
/// be an instruction.
fn keep_control(page: &mut Page, mode: Mode) {
    for at in (0..HALVES - 1).rev() {
        let word = u32::from(page[at + 1]) << 16 | u32::from(page[at]);
        if gives_up_control(word, mode) {
            page[at] = NOTHING;
        }
    }
    // The other half is on the next page, which may be any.
    if is_long(page[HALVES - 1]) {
        page[HALVES - 1] = NOTHING;
    }
}

/// Whether S-mode, by this instruction, might never be interrupted again, or make a call: the
/// calls' fuzzer makes those. A guest may do all but move its trap handler: one that traps at
/// once completes no instruction, and without any QEMU's time stands.
fn gives_up_control(word: u32, mode: Mode) -> bool {
    const CALL: u32 = 0x73;
    const SSTATUS: u32 = 0x100;
    const STVEC: u32 = 0x105;
    const OPCODE: u32 = 0x7f;
    const IN_CONTROL: [u32; 8] = [
        STVEC, 0x104, // sie
        0x14d, // stimecmp
        0x180, // satp
        0x680, // hgatp
        0x205, // vstvec
        0x602, // hedeleg
        0x200, // vsstatus: QEMU takes bits that it does not have over into mstatus
    ];
    let (kind, csr, source) = (word >> 12 & 7, word >> 20, word >> 15 & 31);
    let writes = word & OPCODE == SYSTEM && (kind & 3 == 1 || kind & 3 != 0 && source != 0);
    // Of sstatus a few low bits may change, but for SIE; all others change with each entry.
    let is_harmless = kind & 4 != 0 && kind & 3 != 1 && source & 2 == 0;
    match mode {
        Mode::U | Mode::Vu => false,
        Mode::Vs => writes && csr == STVEC,
        Mode::S => {
            let takes_status = csr == SSTATUS && !is_harmless;
            word == CALL || writes && (takes_status || IN_CONTROL.contains(&csr))
        }
    }
}

const SYSTEM: u32 = 0x73;

/// Calls, returns, waits and fences that have no operands; shadow stacks, landing pads.
const PLAIN: [u32; 20] = [
    0x0000_0073, // ecall
    0x0010_0073, // ebreak
    0x1020_0073, // sret
    0x3020_0073, // mret
    0x7020_0073, // mnret
    0x7b20_0073, // dret
    0x1050_0073, // wfi
    0x00d0_0073, // wrs.nto
    0x01d0_0073, // wrs.sto
    0x1040_0073, // sctrclr
    0x1800_0073, // sfence.w.inval
    0x1810_0073, // sfence.inval.ir
    0x0000_100f, // fence.i
    0x0100_000f, // pause
    0xce10_4073, // sspush ra
    0xcdc0_c073, // sspopchk ra
    0xcdc0_40f3, // ssrdp ra
    0x0000_0017, // lpad 0
    0x0000_1017, // lpad 1
    0x0000_9002, // c.ebreak
];

/// CSRs that are more worth a try than any.
const CSRS: [u32; 72] = [
    0x001, 0x002, 0x003, 0x008, 0x009, 0x00a, 0x00f, 0x011, 0x015, 0x017, 0x100, 0x100, 0x104,
    0x106, 0x10a, 0x10c, 0x10d, 0x120, 0x140, 0x141, 0x142, 0x143, 0x144, 0x14e, 0x150, 0x151,
    0x152, 0x153, 0x154, 0x155, 0x156, 0x157, 0x15c, 0x15f, 0x181, 0x200, 0x204, 0x205, 0x240,
    0x241, 0x242, 0x244, 0x24d, 0x250, 0x251, 0x25c, 0x280, 0x300, 0x304, 0x30a, 0x344, 0x5a8,
    0x600, 0x602, 0x603, 0x604, 0x605, 0x606, 0x607, 0x608, 0x60a, 0x60c, 0x643, 0x645, 0x646,
    0xc00, 0xc01, 0xc02, 0xc20, 0xda0, 0xdb0, 0xeb0,
];

/// Registers that mostly hold addresses, as those of results are others.
const BASES: u32 = 16;

/// One instruction; above a short one is anything.
fn instruction(random: &mut Random) -> u32 {
    let word = operands(random);
    // The opcode, and by it the format; the rest stays random.
    let of = |opcode: u32| word & !0x7f | opcode;
    let kind = |word: u32, kind: u32| word & !0x7000 | kind << 12;
    match random.below(64) {
        0..=24 => arithmetic(random, word),
        // Loads and stores of few bytes around a register's address.
        25..=29 => kind(of(0x03), random.below(7) as u32) & !0xf800_0000,
        30..=33 => kind(of(0x23), random.below(4) as u32) & !0xf800_0000,
        34..=36 => {
            let function = random.of(&[0, 1, 2, 3, 4, 5, 8, 9, 12, 16, 20, 24, 28]);
            let width = random.of(&[0, 1, 2, 2, 3, 3, 4]);
            kind(of(0x2f), width) & !0xf800_0000 | function << 27
        }
        37..=41 => {
            let any = random.once_in(4);
            let csr = if any { word >> 20 } else { random.of(&CSRS) };
            let how = random.of(&[1, 2, 3, 5, 6, 7]);
            kind(of(SYSTEM), how) & !0xfff0_0000 | csr << 20
        }
        // Branches and jumps ahead, of few bytes; a jump to a register.
        42..=44 => of(0x63) & !0xfe00_0080 | 1 << 10,
        45 => 0x6f | word & 0xf80 | (random.below(24) as u32 + 2) << 21,
        46 => kind(of(0x67), 0) & !0xff00_0000,
        47..=49 => of(random.of(&[0x53, 0x53, 0x07, 0x27, 0x43, 0x47, 0x4b, 0x4f])),
        50 | 51 => of(0x57),
        52 => random.of(&PLAIN),
        53 => kind(of(SYSTEM), 4),
        // Fences of translations, of this hart's and a guest's.
        54 => {
            let function = random.of(&[0x09, 0x0b, 0x11, 0x13, 0x31, 0x33]);
            kind(SYSTEM, 0) | word & 0x01ff_8000 | function << 25
        }
        // Fences, and cache blocks.
        55 => {
            let which = random.of(&[0, 1, 2, 4]);
            kind(of(0x0f), random.of(&[0, 1, 2, 2])) & !0xfff0_0000 | which << 20
        }
        56 => of(random.of(&[0x0b, 0x2b, 0x5b, 0x7b, 0x77, 0x6b, 0x73, 0x3f, 0x1f])),
        57..=61 => word & !3 | random.below(3) as u32,
        62 => word | 3,
        _ => word,
    }
}

/// Random bits, whose fields of registers are mostly one of [`BASES`] as the first source,
/// and none of them as the destination.
fn operands(random: &mut Random) -> u32 {
    let word = random.next() as u32;
    if random.once_in(8) {
        return word;
    }
    word & !(BASES << 15) | BASES << 7
}

/// Arithmetic that most harts have, and some that few do.
fn arithmetic(random: &mut Random, word: u32) -> u32 {
    let of = |opcode: u32, kind: u32| word & !0x707f | opcode | kind << 12;
    let number = random.below(8) as u32;
    match random.below(16) {
        0..=5 => of(0x13, random.of(&[0, 2, 3, 4, 6, 7])),
        6 => of(0x1b, 0),
        7 => of(random.of(&[0x13, 0x1b]), random.of(&[1, 5])),
        8..=10 => of(0x33, number) & !0xfe00_0000,
        11 => of(0x33, number) & !0xfe00_0000 | 1 << 25,
        12 => of(0x3b, random.of(&[0, 1, 5])) & !0xfe00_0000,
        13 => {
            let function = random.of(&[4, 5, 7, 0x10, 0x14, 0x20, 0x30, 0x34]);
            of(random.of(&[0x33, 0x3b]), number) & !0xfe00_0000 | function << 25
        }
        _ => word & !0x7f | random.of(&[0x17, 0x37]),
    }
}
