//! Single instructions, traps, and the ends of runs.

mod common;

use common::{CODE, Machine, i, of, r, s};
use poorwill_hart::emulation::status;
use poorwill_isa::encode;
use poorwill_translate::fake::{DEVICE, RAM};
use poorwill_translate::{Host, Mode, Stop};

const DATA: u64 = RAM + 0x8000;
const HANDLER: u64 = RAM + 0x4000;
const SSTATUS: i32 = 0x100;
const SIE: i32 = 0x104;
const STIMECMP: i32 = 0x14d;
const SATP: i32 = 0x180;
const FS: u64 = 1 << 13;

/// Results that the Sail model cannot give (`sail.rs`): operation, operands, result.
#[test]
fn samples() {
    let high = 1_u64 << 63;
    for (name, a, b, result) in [
        ("mulh", u64::MAX, u64::MAX, 0),
        ("mulh", high, 2, u64::MAX),
        ("mulhu", u64::MAX, u64::MAX, u64::MAX - 1),
        ("mulhsu", u64::MAX, u64::MAX, u64::MAX),
        ("mulhsu", high, u64::MAX, high),
        ("subw", 0, 1, u64::MAX),
        ("subw", 0x8000_0000, 1, 0x7fff_ffff),
        ("andn", 0b1100, 0b1010, 0b0100),
        ("orn", 0b1100, 0b1010, !0b0010),
        ("xnor", 0b1100, 0b1010, !0b0110),
        ("min", u64::MAX, 1, u64::MAX),
        ("minu", u64::MAX, 1, 1),
        ("max", u64::MAX, 1, 1),
        ("maxu", u64::MAX, 1, u64::MAX),
        ("rol", high | 1, 65, 3),
        ("ror", high | 1, 1, high | high >> 1),
        ("rolw", 0x8000_0001, 33, 3),
        ("rorw", 1, 1, 0xffff_ffff_8000_0000),
    ] {
        let mut machine = Machine::new(&[r(name, 10, 11, 12)]);
        (machine.hart.x[11], machine.hart.x[12]) = (a, b);
        machine.run(1);
        assert_eq!(machine.hart.x[10], result, "{name} {a:#x} {b:#x}");
    }
    for (name, a, result) in [
        ("clz", 1, 63),
        ("clz", 0, 64),
        ("clzw", 1 << 40, 32),
        ("ctz", 8, 3),
        ("ctzw", 1 << 40, 32),
        ("cpop", u64::MAX, 64),
        ("cpopw", u64::MAX, 32),
        ("sext.b", 0x180, !0x7f),
        ("sext.h", 0x1_8000, !0x7fff),
        ("zext.h", u64::MAX, 0xffff),
        ("rev8", 0x0102, 0x0201 << 48),
        ("orc.b", 0x0100_2000, 0xff00_ff00),
        ("rori", 1, 1 << 60),
        ("roriw", 1, 1 << 28),
    ] {
        let shift = if name.starts_with("rori") { 4 } else { 0 };
        let mut machine = Machine::new(&[i(name, 10, 11, 0) | shift << 20]);
        machine.hart.x[11] = a;
        machine.run(1);
        assert_eq!(machine.hart.x[10], result, "{name} {a:#x}");
    }
}

#[test]
fn loads_and_stores_of_each_width_work_at_any_address() {
    for offset in 0..9 {
        for (load, store, bytes, signed) in [
            ("lb", "sb", 1, true),
            ("lbu", "sb", 1, false),
            ("lh", "sh", 2, true),
            ("lhu", "sh", 2, false),
            ("lw", "sw", 4, true),
            ("lwu", "sw", 4, false),
            ("ld", "sd", 8, true),
        ] {
            // Across two pages.
            let address = DATA - 4 + offset;
            let mut machine = Machine::new(&[s(store, 11, 10, -8), i(load, 12, 11, -8)]);
            machine.hart.x[10] = 0xfedc_ba98_8654_3290;
            machine.hart.x[11] = address + 8;
            assert_eq!(machine.run(2), Stop::Turn);
            let unused = 64 - 8 * bytes;
            let value = machine.hart.x[10] << unused;
            let wanted = match signed {
                true => (value.cast_signed() >> unused).cast_unsigned(),
                false => value >> unused,
            };
            assert_eq!(machine.hart.x[12], wanted, "{load} {offset}");
        }
    }
}

#[test]
fn a_device_takes_aligned_accesses_only() {
    let mut machine = Machine::new(&[s("sw", 11, 10, 0), i("lwu", 12, 11, 0)]);
    (machine.hart.x[10], machine.hart.x[11]) = (0x1_2345_6789, DEVICE + 8);
    machine.run(2);
    assert_eq!(
        *machine.host.stored.borrow(),
        [(DEVICE + 8, 4, 0x2345_6789)]
    );
    assert_eq!(machine.hart.x[12], 0x2345_6789);
    assert_eq!(machine.hart.counts.device_accesses, 2);
    machine.hart.pc = CODE;
    machine.hart.x[11] = DEVICE + 6;
    machine.stops_at_once(Stop::Unknown);
    // The lent hart may not go there.
    machine.hart.csrs.stvec = HANDLER;
    machine.hart.x[11] = 0x100;
    machine.raises(7, 0x100);
    machine.hart.pc = CODE + 4;
    machine.raises(5, 0x100);
}

#[test]
fn atomic_operations() {
    for (name, memory, value, stored) in [
        ("amoswap", 5, 6, 6),
        ("amoadd", 5, u64::MAX, 4),
        ("amoxor", 5, 6, 3),
        ("amoand", 5, 6, 4),
        ("amoor", 5, 6, 7),
        ("amomin", 5, u64::MAX, u64::MAX),
        ("amomax", 5, u64::MAX, 5),
        ("amominu", 5, u64::MAX, 5),
        ("amomaxu", 5, u64::MAX, u64::MAX),
    ] {
        for (suffix, bytes) in [(".w", 4), (".d", 8)] {
            let mut machine = Machine::new(&[r(&format!("{name}{suffix}"), 10, 11, 12)]);
            machine.host.store(DATA, 8, 7 << 32 | memory);
            if bytes == 8 {
                machine.host.store(DATA, 8, memory);
            }
            (machine.hart.x[11], machine.hart.x[12]) = (DATA, value);
            machine.run(1);
            assert_eq!(machine.hart.x[10], memory, "{name}{suffix}");
            let wanted = match bytes {
                4 => 7 << 32 | stored & 0xffff_ffff,
                _ => stored,
            };
            assert_eq!(machine.host.load(DATA, 8), wanted, "{name}{suffix}");
            machine.hart.pc = CODE;
            machine.hart.x[11] = DATA + 1;
            machine.stops_at_once(Stop::Unknown);
        }
    }
    // A comparison that fails stores nothing; the old value is the result.
    let mut machine = Machine::new(&[r("amocas.d", 10, 11, 12), r("amocas.d", 10, 11, 12)]);
    machine.host.store(DATA, 8, 3);
    (machine.hart.x[11], machine.hart.x[12]) = (DATA, 9);
    machine.run(1);
    assert_eq!((machine.hart.x[10], machine.host.load(DATA, 8)), (3, 3));
    machine.run(1);
    assert_eq!((machine.hart.x[10], machine.host.load(DATA, 8)), (3, 9));
}

const LR: fn() -> u32 = || r("lr.d", 10, 11, 0);
const SC: fn() -> u32 = || r("sc.d", 13, 11, 12);

fn reserving(between: u32) -> Machine {
    let mut machine = Machine::new(&[LR(), between, SC()]);
    machine.hart.csrs.stvec = CODE + 8;
    (machine.hart.x[11], machine.hart.x[12], machine.hart.x[13]) = (DATA, 7, 9);
    machine
}

#[test]
fn a_reservation_holds_until_a_trap_a_turns_end_or_another_value() {
    let nop = i("addi", 0, 0, 0);
    let mut machine = reserving(nop);
    machine.run(3);
    assert_eq!((machine.hart.x[13], machine.host.load(DATA, 8)), (0, 7));
    // Twice does not succeed.
    machine.hart.pc = CODE + 8;
    machine.run(1);
    assert_eq!(machine.hart.x[13], 1);

    let mut machine = reserving(of("ebreak"));
    machine.run(3);
    assert_eq!(
        (machine.hart.x[13], machine.host.load(DATA, 8)),
        (1, 0),
        "a trap"
    );

    let mut machine = reserving(nop);
    machine.run(2);
    machine.run(1);
    assert_eq!(machine.hart.x[13], 1, "another turn");

    let mut machine = reserving(s("sb", 11, 12, 0));
    machine.run(3);
    assert_eq!(machine.hart.x[13], 1, "another value");
}

#[test]
fn only_known_csrs_and_values_are_kept() {
    // hstatus, scontext, a counter, a CSR of machine mode; and `fcsr` of a unit that is Off.
    for csr in [0x600, 0x5a8, 0xc00, 0x300, 0x003] {
        Machine::new(&[i("csrrs", 10, 0, csr)]).stops_at_once(Stop::Unknown);
    }
    // SPELP, UXL, VS, and FS of a hart without the unit.
    for bit in [1 << 23, 1 << 32, 1 << 9, 1 << 13] {
        let mut machine = Machine::new(&[i("csrrs", 10, 11, SSTATUS)]);
        machine.hart.x[11] = bit;
        machine.stops_at_once(Stop::Unknown);
    }
    // An interrupt that the weak core does not know, and a mode that the lent hart lacks.
    for (csr, value) in [(SIE, 1 << 13), (SATP, 11 << 60), (STIMECMP, 3), (0x10a, 1)] {
        let mut machine = Machine::new(&[i("csrrw", 10, 11, csr)]);
        machine.hart.x[11] = value;
        machine.stops_at_once(Stop::Unknown);
    }
}

#[test]
fn a_read_only_csr_takes_no_write() {
    let time = 0xc01;
    for write in [
        i("csrrs", 10, 11, time),
        i("csrrw", 10, 11, time),
        i("csrrci", 10, 1, time),
    ] {
        // The value that it has.
        Machine::new(&[write]).stops_at_once(Stop::Unknown);
    }
    let mut machine = Machine::new(&[i("csrrs", 10, 0, time), i("csrrci", 11, 0, time)]);
    machine.host.time.set(7);
    assert_eq!(machine.run(2), Stop::Turn);
    assert_eq!(machine.hart.x[10..12], [7, 7]);
}

#[test]
fn csrs_have_their_fields() {
    let mut machine = Machine::new(&[
        i("csrrw", 10, 11, SSTATUS),
        i("csrrsi", 12, 2, SSTATUS),
        i("csrrci", 13, 2, SSTATUS),
        i("csrrw", 0, 11, 0x141),
        i("csrrs", 14, 0, 0x141),
        i("csrrw", 0, 11, SATP),
    ]);
    machine.hart.features.float = true;
    machine.hart.features.space_mask = 0xff;
    machine.hart.x[11] = 3 << 13 | status::SUM;
    assert_eq!(machine.run(3), Stop::Turn);
    assert_eq!(machine.hart.x[12], 3 << 13 | status::SUM | status::SD);
    assert_eq!(machine.hart.x[13], machine.hart.x[12] | status::SIE);
    assert_eq!(machine.hart.csrs.sstatus, 3 << 13 | status::SUM);
    machine.hart.x[11] = 0xffff << 44 | 0x101;
    machine.run(3);
    assert_eq!(machine.hart.x[14], 0xffff << 44 | 0x100);
    assert_eq!(machine.hart.csrs.satp, 0xff << 44 | 0x101);
}

#[test]
fn floating_point_registers_move() {
    let code = [
        i("fld", 1, 11, 0),
        s("fsd", 11, 1, 8),
        i("flw", 2, 11, 4),
        r("fmv.x.w", 12, 2, 0),
        r("fmv.d.x", 3, 11, 0),
        r("fadd.d", 1, 1, 1),
    ];
    let mut machine = Machine::new(&code);
    machine.hart.x[11] = DATA;
    machine.host.store(DATA, 8, 0x8765_4321_1234_5678);
    machine.stops_at_once(Stop::Unknown);
    machine.hart.csrs.sstatus = FS;
    machine.run(5);
    assert_eq!(machine.host.load(DATA + 8, 8), 0x8765_4321_1234_5678);
    assert_eq!(machine.hart.f[2], 0xffff_ffff_8765_4321);
    assert_eq!(machine.hart.x[12], 0xffff_ffff_8765_4321);
    assert_eq!(machine.hart.f[3], DATA);
    assert_eq!(machine.hart.csrs.sstatus, status::FS, "Dirty");
    machine.stops_at_once(Stop::Unknown);
}

#[test]
fn a_block_is_cleared() {
    let mut machine = Machine::new(&[r("cbo.zero", 0, 11, 0)]);
    machine.hart.x[11] = DATA + 0x7f;
    machine.stops_at_once(Stop::Unknown);
    machine.hart.features.zero_block = Some(64);
    for word in 0..24 {
        machine.host.store(DATA + 8 * word, 8, 1);
    }
    machine.run(1);
    let words = (0..24).map(|word| machine.host.load(DATA + 8 * word, 8));
    assert_eq!(words.sum::<u64>(), 16);
    assert_eq!(machine.host.load(DATA + 0x40, 8), 0);
}

#[test]
fn a_run_stops_at_calls_waits_programs_and_the_unknown() {
    Machine::new(&[of("ecall")]).stops_at_once(Stop::Call);
    Machine::new(&[of("mret")]).stops_at_once(Stop::Unknown);
    Machine::new(&[0]).stops_at_once(Stop::Unknown);
    Machine::new(&[r("cbo.clean", 0, 11, 0)]).stops_at_once(Stop::Unknown);
    let mut outside = Machine::new(&[]);
    outside.hart.pc = DEVICE;
    outside.stops_at_once(Stop::Unknown);

    for (instruction, stop) in [("wfi", Stop::Waits), ("pause", Stop::Pauses)] {
        let mut machine = Machine::new(&[of(instruction)]);
        assert_eq!(machine.run(9), stop);
        assert_eq!(machine.hart.pc, CODE + 4);
    }
    // An interrupt that is pending ends the wait, even if S-mode lets none in.
    let mut machine = Machine::new(&[of("wfi"), i("addi", 0, 0, 0)]);
    machine.hart.csrs.sie = 1 << 9;
    machine.host.interrupts.set(true);
    assert_eq!(machine.run(2), Stop::Turn);
    assert_eq!(machine.hart.pc, CODE + 8);

    let mut machine = Machine::new(&[of("sret")]);
    machine.hart.csrs.sepc = DATA;
    machine.hart.csrs.sstatus = status::SPIE;
    assert_eq!(machine.run(9), Stop::User);
    assert_eq!((machine.hart.pc, machine.hart.mode), (DATA, Mode::User));
    assert_eq!(machine.hart.csrs.sstatus, status::SPIE | status::SIE);

    let mut machine = Machine::new(&[of("ecall")]);
    machine.hart.x[10] = 5;
    assert_eq!(machine.run(1), Stop::Call);
    machine.hart.answer(1, 2);
    assert_eq!(machine.hart.x[10..12], [1, 2]);
    assert_eq!(machine.hart.pc, CODE + 4);
}

#[test]
fn a_program_has_fewer_rights() {
    for privileged in [
        of("sret"),
        of("wfi"),
        r("sfence.vma", 0, 0, 0),
        i("csrrs", 10, 0, 0x100),
    ] {
        let mut machine = Machine::new(&[privileged]);
        machine.hart.mode = Mode::User;
        machine.stops_at_once(Stop::Unknown);
    }
    // Before a fault of its address.
    let mut machine = Machine::new(&[r("cbo.zero", 0, 11, 0)]);
    machine.hart.mode = Mode::User;
    machine.hart.features.zero_block = Some(64);
    machine.hart.x[11] = 1 << 60;
    machine.stops_at_once(Stop::Unknown);

    let mut machine = Machine::new(&[of("ecall")]);
    machine.hart.mode = Mode::User;
    machine.hart.csrs.stvec = HANDLER;
    machine.raises(8, 0);
    assert_eq!(machine.hart.mode, Mode::Supervisor);
    assert_eq!(machine.hart.csrs.sstatus & status::SPP, 0);
}

#[test]
fn interrupts_come_by_priority_where_s_mode_lets_them_in() {
    const ALL: u64 = 1 << 1 | 1 << 5 | 1 << 9;
    let interrupted = |enabled, is_on: bool, vector| {
        let mut machine = Machine::new(&[encode::j(of("jal"), 0, 0)]);
        machine.hart.csrs.stvec = HANDLER | vector;
        machine.host.put_code(HANDLER, &[i("addi", 0, 0, 0); 16]);
        machine.hart.csrs.sie = enabled;
        machine.hart.csrs.sstatus = if is_on { status::SIE } else { 0 };
        machine.hart.csrs.software_interrupt = true;
        machine.host.interrupts.set(true);
        machine.hart.csrs.deadline = 10;
        machine.host.time.set(10);
        machine.run(1);
        machine.hart
    };
    assert_eq!(interrupted(ALL, false, 0).pc, CODE);
    assert_eq!(interrupted(0, true, 0).pc, CODE);
    for (enabled, number) in [(ALL, 9), (1 << 1 | 1 << 5, 1), (1 << 5, 5)] {
        let hart = interrupted(enabled, true, 0);
        assert_eq!(hart.csrs.scause, 1 << 63 | number);
        assert_eq!((hart.csrs.sepc, hart.csrs.stval), (CODE, 0));
        assert_eq!(hart.pc, HANDLER + 4);
        assert_eq!(hart.csrs.sstatus, status::SPIE | status::SPP);
        assert_eq!(hart.counts.interrupts, 1);
        let vectored = interrupted(enabled, true, 1);
        assert_eq!(vectored.pc, HANDLER + 4 * number + 4);
    }
}

#[test]
fn an_interrupt_comes_right_after_it_is_let_in() {
    let mut machine = Machine::new(&[i("csrrsi", 0, 2, SSTATUS), i("addi", 10, 10, 1)]);
    machine.host.put_code(HANDLER, &[i("addi", 0, 0, 0)]);
    machine.hart.csrs.stvec = HANDLER;
    machine.hart.csrs.sie = 1 << 5;
    machine.hart.csrs.deadline = 0;
    machine.run(2);
    assert_eq!((machine.hart.x[10], machine.hart.csrs.sepc), (0, CODE + 4));
}

#[test]
fn a_turn_has_as_many_instructions_as_it_is_given() {
    let mut machine = Machine::new(&[encode::j(of("jal"), 0, 0)]);
    for most in [0, 1, 63, 64, 65, 1000] {
        machine.hart.counts.instructions = 0;
        assert_eq!(machine.run(most), Stop::Turn);
        assert_eq!(machine.hart.counts.instructions, most);
    }
    let mut machine = Machine::new(&[i("csrrs", 0, 0, SSTATUS), encode::j(of("jal"), 0, -4)]);
    machine.run(777);
    assert_eq!(machine.hart.counts.instructions, 777);
}
