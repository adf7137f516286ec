//! The census of the decoder: each form of its table against independent decoders, and each
//! encoding that one of them knows and another does not.
//!
//! The oracles: tables of the specification's encodings (`encodings.txt`,
//! `compressed-encodings.txt`), the Sail model (`softcore-rv64`), and `raki`.

mod compressed;
mod differences;
mod opcodes;
mod raki;
mod sail;
mod short;

use std::collections::BTreeSet;

use poorwill_isa::{FORMS, Form, Format, Instruction, Operation};

use opcodes::{Fields, OPCODES};

/// Random instructions of each form.
const DRAWS: usize = 500;

/// Forms that `raki` lacks, by the extension that it lacks.
const NOT_IN_RAKI: [(&str, &str); 11] = [
    (
        "F and D",
        "flw fld fsw fsd fmadd.s fmadd.d fmsub.s fmsub.d fnmsub.s fnmsub.d fnmadd.s \
        fnmadd.d fadd.s fsub.s fmul.s fdiv.s fsqrt.s fsgnj.s fsgnjn.s fsgnjx.s fmin.s fmax.s fle.s \
        flt.s feq.s fcvt.w.s fcvt.wu.s fcvt.l.s fcvt.lu.s fcvt.s.w fcvt.s.wu fcvt.s.l fcvt.s.lu \
        fclass.s fmv.x.w fmv.w.x fadd.d fsub.d fmul.d fdiv.d fsqrt.d fsgnj.d fsgnjn.d fsgnjx.d \
        fmin.d fmax.d fle.d flt.d feq.d fcvt.w.d fcvt.wu.d fcvt.l.d fcvt.lu.d fcvt.d.w fcvt.d.wu \
        fcvt.d.l fcvt.d.lu fclass.d fmv.x.d fmv.d.x fcvt.s.d fcvt.d.s",
    ),
    (
        "Zba",
        "sh1add sh2add sh3add add.uw sh1add.uw sh2add.uw sh3add.uw slli.uw",
    ),
    (
        "Zbb",
        "andn orn xnor clz ctz cpop clzw ctzw cpopw min minu max maxu sext.b sext.h zext.h rol \
        ror rori rolw rorw roriw orc.b rev8",
    ),
    ("Zbs", "bclr bclri bext bexti binv binvi bset bseti"),
    ("Zicond", "czero.eqz czero.nez"),
    ("Zicbom", "cbo.inval cbo.clean cbo.flush"),
    (
        "fence is fence.i to it, and fence.i unknown",
        "fence fence.i",
    ),
    ("Svinval", "sinval.vma sfence.w.inval sfence.inval.ir"),
    ("Zacas", "amocas.w amocas.d"),
    ("Zawrs", "wrs.nto wrs.sto"),
    ("Zihintpause", "pause"),
];

/// Forms that the Sail model lacks, and `raki` too. The specification's table alone checks them.
const NOT_IN_SAIL: [(&str, &str); 3] = [
    ("Zacas: softcore-rv64 0.6 is older", "amocas.w amocas.d"),
    ("Zawrs: softcore-rv64 0.6 is older", "wrs.nto wrs.sto"),
    ("Zihintpause: a fence to the model", "pause"),
];

/// Returns whether the instruction reads a counter: raki gives it the pseudo-instruction's name.
fn is_counter(own: &Instruction) -> bool {
    const COUNTERS: [i32; 6] = [0xc00, 0xc01, 0xc02, 0xc80, 0xc81, 0xc82];
    own.operation == Operation::Csrrs && COUNTERS.contains(&own.immediate)
}

fn drawn(form: &Form) -> u32 {
    fastrand::u32(..) & !form.mask | form.value
}

/// The mnemonics of a list.
fn listed(list: &[(&str, &'static str)]) -> BTreeSet<&'static str> {
    list.iter()
        .flat_map(|(_, names)| names.split_whitespace())
        .collect()
}

fn mnemonic(instruction: &Instruction) -> &'static str {
    FORMS[instruction.operation as usize].mnemonic
}

/// The fields of an instruction that its operation has.
fn fields_of(instruction: &Instruction) -> Fields {
    let operands = &OPCODES[mnemonic(instruction)].operands;
    let has = |name: &str| operands.contains(&name);
    let field = |has: bool, number: u8| has.then_some(number.into());
    Fields {
        rd: field(has("rd"), instruction.rd),
        rs1: field(has("rs1") || has("zimm5"), instruction.rs1),
        rs2: field(has("rs2"), instruction.rs2),
        rs3: field(has("rs3"), instruction.rs3),
        immediate: (instruction.operation.format() != Format::R).then_some(instruction.immediate),
    }
}

#[test]
fn each_form_has_the_specifications_encoding_and_fields() {
    let names: BTreeSet<_> = FORMS.iter().map(|form| form.mnemonic).collect();
    assert_eq!(names, OPCODES.keys().copied().collect());
    for form in FORMS {
        let opcode = &OPCODES[form.mnemonic];
        assert_eq!(
            (form.mask, form.value),
            (opcode.mask, opcode.value),
            "{}",
            form.mnemonic
        );
        for _ in 0..DRAWS {
            let bits = drawn(form);
            let own = Instruction::decode(bits).expect("it has a form");
            let is_pause = own.operation == Operation::Pause;
            assert!(own.operation == form.operation || is_pause, "{bits:#x}");
            let fields = opcodes::fields(&OPCODES[mnemonic(&own)].operands, bits);
            assert_eq!(fields_of(&own), fields, "{bits:#x} {}", form.mnemonic);
        }
    }
}

#[test]
fn raki_reads_each_form_alike() {
    let mut others = BTreeSet::new();
    for form in FORMS {
        for _ in 0..DRAWS {
            let bits = drawn(form);
            let own = Instruction::decode(bits).expect("it has a form");
            let read = raki::read(bits).filter(|read| raki::name_of(read) == mnemonic(&own));
            match read {
                Some(read) => compare_with_raki(bits, &own, &read),
                None if is_counter(&own) => {}
                None => _ = others.insert(mnemonic(&own)),
            }
        }
    }
    assert_eq!(others, listed(&NOT_IN_RAKI));
}

fn compare_with_raki(bits: u32, own: &Instruction, read: &::raki::Instruction) {
    let format = own.operation.format();
    let fields = fields_of(own);
    let immediate = fields.immediate.unwrap_or_default();
    // To raki a CSR's number is a source, and the other source is its immediate.
    let (rs2, immediate) = match format {
        Format::Csr => (immediate.cast_unsigned(), own.rs1.into()),
        _ => (own.rs2.into(), immediate),
    };
    // It leaves the low bits of U's immediate out.
    let shift = if format == Format::U { 12 } else { 0 };
    let same = |read: Option<usize>, own: u32| read.is_none_or(|read| read == own as usize);
    assert!(same(read.rd, own.rd.into()), "{bits:#x} {read:?}");
    assert!(same(read.rs1, own.rs1.into()), "{bits:#x} {read:?}");
    assert!(same(read.rs2, rs2), "{bits:#x} {read:?}");
    // A fence's sets are no immediate to it, and those of others are their fixed bits.
    if format != Format::R && own.operation != Operation::Fence {
        assert!(
            read.imm.is_none_or(|read| read << shift == immediate),
            "{bits:#x} {read:?}"
        );
    }
}

#[test]
fn sail_reads_each_form_alike() {
    let mut core = sail::core();
    let mut others = BTreeSet::new();
    for form in FORMS {
        for _ in 0..DRAWS {
            let bits = without_reserved_rounding(drawn(form), form);
            let own = Instruction::decode(bits).expect("it has a form");
            let read = core.decode_instr(bits);
            let name = mnemonic(&own);
            let is_same = |read: String| read == name || read == name.replace('.', "");
            if !sail::name_of(&read).is_some_and(is_same) {
                others.insert(name);
            } else if ![Operation::Fence, Operation::FenceI].contains(&own.operation) {
                let mut numbers = sail::numbers(&read);
                let mut wanted = numbers_of(&own);
                numbers.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(numbers, wanted, "{bits:#x} {read:?}");
            }
        }
    }
    assert_eq!(others, listed(&NOT_IN_SAIL));
    // These are in no oracle but the specification's table.
    let neither: BTreeSet<_> = listed(&NOT_IN_RAKI)
        .intersection(&others)
        .copied()
        .collect();
    assert_eq!(neither, others);
}

/// Two rounding modes are reserved.
fn without_reserved_rounding(bits: u32, form: &Form) -> u32 {
    match form.value & 0x7f {
        0x43..=0x53 => bits & !(5 << 12) | form.value,
        _ => bits,
    }
}

/// Numbers of registers and of the immediate's bits, as the model has them.
fn numbers_of(own: &Instruction) -> Vec<u32> {
    let fields = fields_of(own);
    let immediate = fields.immediate.map(|immediate| {
        let immediate = immediate.cast_unsigned();
        match own.operation.format() {
            Format::B => immediate & 0x1fff,
            Format::J => immediate & 0x1f_ffff,
            Format::U => immediate >> 12,
            _ => immediate & 0xfff,
        }
    });
    let registers = [fields.rd, fields.rs1, fields.rs2, fields.rs3];
    registers.into_iter().chain([immediate]).flatten().collect()
}
