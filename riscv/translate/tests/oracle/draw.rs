//! Random instructions, programs, and the machines that run them.

use fastrand::Rng;
use poorwill_isa::{FORMS, Form, Format, Instruction, encode};
use poorwill_translate::fake::{DEVICE, FakeHost, RAM};
use poorwill_translate::{Features, Mode};

use crate::common::flags::{A, D, G, R, U, V, W, X};
use crate::common::{i, of, s};

const PAGE: u64 = 4096;
const CODE: u64 = RAM + 0x1000;
const HANDLER: u64 = RAM + 0x4000;
const DATA: u64 = RAM + 0x8000;
/// An address that neither memory nor a device has.
const NOWHERE: u64 = 0x10_0000;

/// Flags of a page that was accessed and written.
const AD: u64 = A | D;

/// Registers that hold addresses of data.
pub(crate) const POINTERS: [u8; 6] = [STACK_POINTER, 8, 9, 15, 18, 19];
const STACK_POINTER: u8 = 2;
/// The register of an address of code.
pub(crate) const OF_CODE: u8 = 20;
/// The register of a value for `satp`.
pub(crate) const OF_SATP: u8 = 21;
const SATP: u32 = 0x180;

/// A machine before its first instruction.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    pub(crate) features: Features,
    pub(crate) satp: u64,
    pub(crate) stvec: u64,
    pub(crate) sstatus: u64,
    pub(crate) sie: u64,
    pub(crate) pc: u64,
    /// First address of code, of the handler, and of four pages of data.
    pub(crate) code: u64,
    pub(crate) data: u64,
    halves: Vec<u16>,
    handler_step: i32,
    leaves: Vec<(u64, u64, u64)>,
    /// An address at which one leaf maps all memory.
    window: Option<u64>,
}

/// Bytes of that leaf.
const WINDOW: u64 = 2 << 20;

pub(crate) fn one_in(rng: &mut Rng, count: u32) -> bool {
    rng.u32(0..count) == 0
}

/// Often a number at an edge.
pub(crate) fn value(rng: &mut Rng) -> u64 {
    const EDGES: [u64; 8] = [
        0,
        1,
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        1 << 31,
        (1 << 31) - 1,
        u32::MAX as u64,
    ];
    match rng.u32(0..4) {
        0 => EDGES[rng.usize(..EDGES.len())],
        1 => rng.u64(0..64),
        _ => rng.u64(..),
    }
}

/// An address near the case's data, or another.
pub(crate) fn pointer(rng: &mut Rng, case: &Case) -> u64 {
    let page = match case.window {
        Some(window) if one_in(rng, 3) => window + (DATA - RAM) + PAGE * rng.u64(0..4),
        _ => case.data + PAGE * rng.u64(0..4),
    };
    match rng.u32(0..16) {
        0 => rng.u64(..),
        1 => NOWHERE,
        // Before the end of a page: with some offsets across it.
        2..5 => page + PAGE - rng.u64(1..9) - 8 * rng.u64(0..4),
        5 => page + rng.u64(0..64),
        _ => page + 8 * rng.u64(0..64),
    }
}

/// Numbers of the CSRs that programs use; the last ones are not kept.
const CSRS: [u32; 21] = [
    0x001, 0x002, 0x003, 0x100, 0x100, 0x100, 0x104, 0x105, 0x106, 0x10a, 0x140, 0x141, 0x142,
    0x143, 0x144, 0x14d, 0x180, 0xc01, 0xc00, 0x300, 0x5a8,
];

/// A random instruction of a form, with a register of the pointers where it accesses memory.
pub(crate) fn of_form(rng: &mut Rng, form: &Form) -> u32 {
    let mut bits = rng.u32(..) & !form.mask | form.value;
    let mut put = |from: u32, width: u32, value: u32| {
        let field = ((1 << width) - 1) << from;
        if form.mask & field == 0 {
            bits = bits & !field | value << from;
        }
    };
    let opcode = form.value & 0x7f;
    let is_access = [0x03, 0x07, 0x23, 0x27, 0x2f].contains(&opcode);
    if is_access || form.mnemonic.starts_with("cbo") {
        put(15, 5, POINTERS[rng.usize(..POINTERS.len())].into());
    }
    match form.format {
        // Offsets that keep an aligned pointer aligned, mostly.
        Format::I if is_access && !one_in(rng, 4) => put(20, 12, 8 * rng.u32(0..8)),
        Format::S if is_access && !one_in(rng, 4) => {
            put(25, 7, rng.u32(0..2));
            put(7, 5, 8 * rng.u32(0..4));
        }
        Format::Csr => {
            let csr = CSRS[rng.usize(..CSRS.len())];
            put(20, 12, csr);
            if csr == SATP {
                let is_write = form.mnemonic == "csrrw";
                put(15, 5, if is_write { OF_SATP.into() } else { 0 });
            }
        }
        Format::B => {
            bits = encode::b(bits & 0x01ff_f07f, 0, 0, 2 * rng.i32(-12..20));
        }
        Format::J => bits = encode::j(bits & 0xfff, 0, 2 * rng.i32(-12..20)),
        _ => {}
    }
    if form.mnemonic == "jalr" {
        bits = encode::i(
            form.value,
            bits >> 7 & 31,
            OF_CODE.into(),
            2 * rng.i32(0..60),
        );
    }
    // Pointers mostly keep their values. Stores and branches have an offset there.
    let writes = !matches!(form.format, Format::S | Format::B);
    let rd = (bits >> 7 & 31) as u8;
    let is_kept = POINTERS.contains(&rd) || [OF_CODE, OF_SATP].contains(&rd);
    if writes && form.mask & 0xf80 == 0 && is_kept && (rd == OF_SATP || !one_in(rng, 8)) {
        bits &= !0xf80;
    }
    bits
}

/// A random instruction of a program, which leaves the value for `satp` alone. Its second half may
/// not.
fn instruction(rng: &mut Rng) -> Vec<u16> {
    loop {
        let halves = any_instruction(rng);
        let bits = halves
            .iter()
            .rev()
            .fold(0, |bits, half| bits << 16 | u32::from(*half));
        if Instruction::decode(bits).is_none_or(|decoded| decoded.rd != OF_SATP) {
            return halves;
        }
    }
}

/// A random instruction of one or two half-words.
fn any_instruction(rng: &mut Rng) -> Vec<u16> {
    let of_names = |rng: &mut Rng, names: &[&str]| {
        let name = names[rng.usize(..names.len())];
        let form = FORMS.iter().find(|form| form.mnemonic == name);
        of_form(rng, form.expect("a form"))
    };
    let of_opcodes = |rng: &mut Rng, opcodes: &[u32]| {
        let is_its = |form: &&Form| opcodes.contains(&(form.value & 0x7f));
        let forms: Vec<_> = FORMS.iter().filter(is_its).collect();
        let form = forms[rng.usize(..forms.len())];
        of_form(rng, form)
    };
    let bits = match rng.u32(0..40) {
        0..8 => of_opcodes(rng, &[0x13, 0x1b, 0x33, 0x3b, 0x17, 0x37]),
        8..14 => of_opcodes(rng, &[0x03, 0x23]),
        14..17 => of_opcodes(rng, &[0x63]),
        17 => of_opcodes(rng, &[0x67, 0x6f]),
        18..20 => of_opcodes(rng, &[0x2f]),
        // Often two of them at one address.
        20 => of_names(rng, &["lr.w", "sc.w", "lr.d", "sc.d"]) & !(31 << 15) | 8 << 15,
        21..26 => of_names(
            rng,
            &["csrrw", "csrrs", "csrrc", "csrrwi", "csrrsi", "csrrci"],
        ),
        26 => of_names(
            rng,
            &["sfence.vma", "fence", "fence.i", "sinval.vma", "cbo.zero"],
        ),
        27 => of_names(
            rng,
            &["ecall", "ebreak", "sret", "wfi", "pause", "wrs.nto", "mret"],
        ),
        28..31 => of_names(
            rng,
            &[
                "flw", "fld", "fsw", "fsd", "fmv.x.w", "fmv.w.x", "fmv.x.d", "fmv.d.x", "fadd.d",
            ],
        ),
        31..33 => rng.u32(..),
        33..35 => return function(rng),
        _ => return vec![(rng.u32(..) as u16 & !3) | rng.u16(0..3)],
    };
    halves(bits)
}

/// A part of a function: it moves the stack pointer, stores registers, and loads some.
fn function(rng: &mut Rng) -> Vec<u16> {
    let sp = STACK_POINTER.into();
    let frame = 16 * rng.i32(0..4);
    let mut program = vec![i("addi", sp, sp, -frame)];
    for _ in 0..rng.u32(0..5) {
        let (register, offset) = (rng.u32(22..32), 8 * rng.i32(-1..8));
        program.push(match rng.u32(0..5) {
            0 | 1 => s("sd", sp, register, offset),
            2 | 3 => i("ld", register, sp, offset),
            _ => i("addi", register, sp, offset),
        });
    }
    if rng.bool() {
        program.push(i("addi", sp, sp, frame));
    }
    program.into_iter().flat_map(halves).collect()
}

/// A program that begins anew at its end.
fn program(rng: &mut Rng, count: usize) -> Vec<u16> {
    let mut program: Vec<u16> = (0..count).flat_map(|_| instruction(rng)).collect();
    let length = 2 * i32::try_from(program.len()).expect("a short program");
    program.extend(halves(encode::j(of("jal"), 0, -length)));
    program
}

fn halves(bits: u32) -> Vec<u16> {
    vec![bits as u16, (bits >> 16) as u16]
}

fn features(rng: &mut Rng) -> Features {
    Features {
        modes: 1 | 7 << 8,
        space_mask: [0xffff, 0xff, 0][rng.usize(..3)],
        float: true,
        sstc: rng.bool(),
        sets_accessed: rng.bool(),
        page_types: rng.bool(),
        zero_block: [None, Some(64), Some(4096)][rng.usize(..3)],
        ..Features::default()
    }
}

/// An address that the mode translates.
fn canonical(rng: &mut Rng, levels: u32) -> u64 {
    let unused = 64 - (12 + 9 * levels);
    let address = rng.u64(..) & !(16 * PAGE - 1);
    (address.cast_signed() << unused >> unused).cast_unsigned()
}

/// The leaf of a page of data: virtual page, physical page, flags.
fn data_leaf(rng: &mut Rng, number: u64, user: bool) -> (u64, u64) {
    let physical = match (number, rng.u32(0..8)) {
        (0, _) => DATA,
        (2, 0..7) => DEVICE,
        (_, 7) => NOWHERE,
        _ => DATA + PAGE * number,
    };
    let own = if user != one_in(rng, 8) { U } else { 0 };
    let rights =
        [R | W, R | W, R | W | X, R, X, 0, W][rng.usize(..if number == 0 { 2 } else { 7 })];
    let mut flags = V | own | rights | AD;
    if one_in(rng, 3) {
        flags &= !(rng.u64(..) & AD);
    }
    if one_in(rng, 8) {
        flags ^= 1 << [0, 4, 54, 61, 62, 63][rng.usize(..6)];
    }
    (physical, flags)
}

/// The case of a seed; its program has `count` instructions, or is `only`.
pub(crate) fn case(rng: &mut Rng, count: usize, only: Option<u32>) -> Case {
    let user = rng.bool();
    let levels = [0, 3, 3, 4, 5][rng.usize(..5)];
    let is_translated = levels != 0;
    let at = |rng: &mut Rng, physical| match is_translated {
        true => canonical(rng, levels),
        false => physical,
    };
    let (code, handler, data) = (at(rng, CODE), at(rng, HANDLER), at(rng, DATA));
    let mut leaves = Vec::new();
    if is_translated {
        let of_code = if user { U } else { 0 } | V | R | X | AD;
        leaves.push((code, CODE, of_code));
        if !one_in(rng, 8) {
            leaves.push((code + PAGE, CODE + PAGE, of_code));
        }
        leaves.push((handler, HANDLER, V | R | X | AD));
        for number in 0..4 {
            let (physical, flags) = data_leaf(rng, number, user);
            leaves.push((data + PAGE * number, physical, flags));
        }
    }
    let window = (levels > 0 && rng.bool()).then(|| canonical(rng, levels) & !(WINDOW - 1));
    let space = if is_translated { rng.u64(..1 << 16) } else { 0 };
    let features = features(rng);
    let mode = if levels == 0 {
        0
    } else {
        u64::from(levels) + 5
    };
    let halves = match only {
        Some(bits) => halves(bits),
        None => program(rng, count),
    };
    // Programs mostly cross into a second page.
    let before = if one_in(rng, 3) {
        0
    } else {
        PAGE - 2 * rng.u64(1..64)
    };
    Case {
        mode: if user { Mode::User } else { Mode::Supervisor },
        features,
        satp: mode << 60 | (space & features.space_mask) << 44,
        stvec: handler | rng.u64(0..2),
        // SIE, SPIE, SPP, FS, SUM, MXR
        sstatus: 2 << 32 | rng.u64(..) & (1 << 1 | 1 << 5 | 1 << 8 | 3 << 13 | 3 << 18),
        sie: rng.u64(..) & (1 << 1 | 1 << 5 | 1 << 9),
        pc: code + before,
        code,
        data,
        halves,
        handler_step: [2, 4, 4][rng.usize(..3)],
        leaves,
        window,
    }
}

impl Case {
    /// The program's instruction at an address.
    #[allow(dead_code, reason = "each test uses a part")]
    pub(crate) fn instruction_at(&self, pc: u64) -> Option<Instruction> {
        let at = usize::try_from(pc.wrapping_sub(self.pc) / 2).ok()?;
        let low = u32::from(*self.halves.get(at)?);
        let high = self.halves.get(at + 1).map_or(0, |half| u32::from(*half));
        Instruction::decode(high << 16 | low)
    }

    /// Maps all pages into all address spaces.
    #[allow(dead_code, reason = "each test uses a part")]
    pub(crate) fn map_for_all(&mut self) {
        const GLOBAL: u64 = 1 << 5;
        self.leaves.iter_mut().for_each(|leaf| leaf.2 |= GLOBAL);
    }

    /// A host with code, handler and tables, and the value of `satp`.
    pub(crate) fn host(&self) -> (FakeHost, u64) {
        let host = FakeHost::new(64);
        let physical = CODE + (self.pc - self.code);
        host.put_halves(physical, &self.halves);
        host.put_code(HANDLER, &[encode::j(of("jal"), 0, 0x100); 16]);
        for entry in 0..16 {
            let offset = 0x100 - 4 * i32::from(entry as u8);
            host.put_code(HANDLER + 4 * entry, &[encode::j(of("jal"), 0, offset)]);
        }
        host.put_code(HANDLER + 0x100, &self.handler());
        let mut satp = self.satp;
        if satp != 0 {
            let root = host.take_page();
            let levels = u32::from((satp >> 60) as u8) - 5;
            for &(address, physical, flags) in &self.leaves {
                host.map(root, levels, 0, address, physical, flags);
            }
            if let Some(window) = self.window {
                host.map(root, levels, 1, window, RAM, V | R | W | G | AD);
            }
            satp |= root >> 12;
        }
        (host, satp)
    }

    /// Skips the instruction of an exception.
    fn handler(&self) -> [u32; 6] {
        const SSCRATCH: i32 = 0x140;
        const SEPC: i32 = 0x141;
        [
            i("csrrw", 5, 5, SSCRATCH),
            i("csrrs", 5, 0, SEPC),
            i("addi", 5, 5, self.handler_step),
            i("csrrw", 0, 5, SEPC),
            i("csrrw", 5, 5, SSCRATCH),
            of("sret"),
        ]
    }
}

trait PutHalves {
    fn put_halves(&self, address: u64, halves: &[u16]);
}

impl PutHalves for FakeHost {
    fn put_halves(&self, address: u64, halves: &[u16]) {
        for (place, half) in (address..).step_by(2).zip(halves) {
            poorwill_translate::Host::store(self, place, 2, (*half).into());
        }
    }
}
