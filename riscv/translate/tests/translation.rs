//! Address translation, its faults, and the virtual TLB.

mod common;

use common::flags::{A, D, G, R, U, V, W, X};
use common::{CODE, Machine, i, of, r, s};
use poorwill_hart::emulation::status;
use poorwill_translate::fake::{DEVICE, RAM};
use poorwill_translate::{Host, Mode, Stop};

const PAGE: u64 = 0x1000;
const DATA: u64 = RAM + 0x8000;
const VIRTUAL: u64 = 0xffff_ffc0_1234_5000;
const ALL: u64 = V | R | W | X | A | D;

/// Modes of `satp`, with their levels.
const MODES: [(u64, u32); 3] = [(8, 3), (9, 4), (10, 5)];

/// A machine with its code mapped at its own address in tables of this mode.
struct Mapped {
    machine: Machine,
    root: u64,
    levels: u32,
}

impl Mapped {
    fn new(code: &[u32], (mode, levels): (u64, u32)) -> Self {
        let mut machine = Machine::new(code);
        let root = machine.host.take_page();
        machine.hart.csrs.satp = mode << 60 | root >> 12;
        machine.hart.csrs.stvec = CODE;
        let mapped = Mapped {
            machine,
            root,
            levels,
        };
        mapped.map(0, CODE, CODE, ALL);
        mapped
    }

    fn map(&self, level: u32, address: u64, physical: u64, flags: u64) -> u64 {
        let host = &self.machine.host;
        host.map(self.root, self.levels, level, address, physical, flags)
    }
}

const LOAD: fn() -> u32 = || i("ld", 10, 11, 8);
const STORE: fn() -> u32 = || s("sd", 11, 12, 8);

#[test]
fn each_mode_translates_pages_and_larger_leaves() {
    for mode in MODES {
        for level in 0..mode.1 {
            let mut mapped = Mapped::new(&[STORE(), LOAD()], mode);
            let bytes = PAGE << (9 * level);
            // A leaf of at least 1 GiB begins at address 0 here, which has the memory's place.
            let physical = DATA & !(bytes - 1);
            let address = VIRTUAL & !(bytes - 1) | DATA & (bytes - 1);
            mapped.map(level, address, physical, ALL);
            let hart = &mut mapped.machine.hart;
            (hart.x[11], hart.x[12]) = (address, 77);
            if level > 2 {
                continue;
            }
            assert_eq!(mapped.machine.run(2), Stop::Turn);
            assert_eq!(mapped.machine.hart.x[10], 77, "{mode:?} {level}");
            assert_eq!(mapped.machine.host.load(DATA + 8, 8), 77);
        }
    }
}

#[test]
fn rights_are_those_of_the_leaf_and_the_mode() {
    let user = Mode::User;
    let supervisor = Mode::Supervisor;
    for (flags, mode, sstatus, load, store) in [
        (V | R | A, supervisor, 0, true, false),
        (V | R | W | A | D, supervisor, 0, true, true),
        (V | X | A, supervisor, 0, false, false),
        (V | X | A, supervisor, status::MXR, true, false),
        (V | R | W | U | A | D, supervisor, 0, false, false),
        (V | R | W | U | A | D, supervisor, status::SUM, true, true),
        (V | R | W | U | A | D, user, 0, true, true),
        (V | R | W | A | D, user, 0, false, false),
        (V | W | A | D, supervisor, 0, false, false),
        (R | W | A | D, supervisor, 0, false, false),
        // Without A, and without D, no hart of this machine sets them.
        (V | R | W, supervisor, 0, false, false),
        (V | R | W | A, supervisor, 0, true, false),
        // Reserved bits, and a memory type that the lent hart does not know.
        (ALL | 1 << 54, supervisor, 0, false, false),
        (ALL | 1 << 61, supervisor, 0, false, false),
    ] {
        for (instruction, works, cause) in [(LOAD(), load, 13), (STORE(), store, 15)] {
            let mut mapped = Mapped::new(&[instruction], MODES[0]);
            let code_flags = if mode == user { ALL | U } else { ALL };
            mapped.map(0, CODE, CODE, code_flags);
            mapped.map(0, VIRTUAL, DATA, flags);
            let hart = &mut mapped.machine.hart;
            hart.mode = mode;
            hart.csrs.sstatus = sstatus;
            hart.x[11] = VIRTUAL;
            match works {
                true => {
                    assert_eq!(mapped.machine.run(1), Stop::Turn);
                    assert_eq!(mapped.machine.hart.counts.exceptions, 0, "{flags:#x}");
                }
                false => mapped.machine.raises(cause, VIRTUAL + 8),
            }
        }
    }
}

#[test]
fn accessed_and_dirty_bits_are_set_where_the_lent_hart_does() {
    let mut mapped = Mapped::new(&[LOAD(), STORE(), STORE()], MODES[1]);
    let place = mapped.map(0, VIRTUAL, DATA, V | R | W);
    let hart = &mut mapped.machine.hart;
    hart.features.sets_accessed = true;
    hart.x[11] = VIRTUAL;
    mapped.machine.run(1);
    assert_eq!(mapped.machine.host.load(place, 8) & 0xff, V | R | W | A);
    mapped.machine.run(1);
    assert_eq!(mapped.machine.host.load(place, 8) & 0xff, V | R | W | A | D);
    assert_eq!(mapped.machine.hart.counts.exceptions, 0);
}

#[test]
fn page_types_are_taken_where_the_lent_hart_has_them() {
    let mut mapped = Mapped::new(&[LOAD()], MODES[0]);
    mapped.map(0, VIRTUAL, DATA, ALL | 1 << 61);
    mapped.machine.hart.x[11] = VIRTUAL;
    mapped.machine.hart.features.page_types = true;
    mapped.machine.run(1);
    assert_eq!(mapped.machine.hart.counts.exceptions, 0);
}

#[test]
fn faults_name_what_is_wrong() {
    // A table outside memory is an access fault; an address that is not canonical a page fault.
    let mut mapped = Mapped::new(&[LOAD()], MODES[0]);
    let host = &mapped.machine.host;
    host.store(
        mapped.root + 8 * (VIRTUAL >> 30 & 511),
        8,
        DEVICE >> 12 << 10 | V,
    );
    mapped.machine.hart.x[11] = VIRTUAL;
    mapped.machine.raises(5, VIRTUAL + 8);
    mapped.machine.hart.x[11] = 1 << 60;
    mapped.machine.raises(13, (1 << 60) + 8);
    // A misaligned leaf.
    mapped.map(1, 0x4000_0000, DATA, ALL);
    mapped.machine.hart.x[11] = 0x4000_0000;
    mapped.machine.raises(13, 0x4000_0008);
    // Code that is not mapped.
    mapped.machine.hart.pc = 0x7000_0000;
    mapped.machine.raises(12, 0x7000_0000);
}

/// Linux enables translation so: `stvec` has the next instruction's virtual address.
#[test]
fn translation_begins_with_a_fault_of_the_next_fetch() {
    let mut mapped = Mapped::new(&[i("csrrw", 0, 11, 0x180), i("addi", 10, 0, 1)], MODES[0]);
    // Its code is mapped elsewhere alone.
    mapped.map(0, CODE, 0, 0);
    mapped.map(0, VIRTUAL, CODE, ALL);
    let hart = &mut mapped.machine.hart;
    hart.x[11] = hart.csrs.satp;
    hart.csrs.satp = 0;
    hart.csrs.stvec = VIRTUAL + 4;
    assert_eq!(mapped.machine.run(3), Stop::Turn);
    let hart = &mapped.machine.hart;
    assert_eq!((hart.x[10], hart.pc), (1, VIRTUAL + 8));
    assert_eq!((hart.csrs.scause, hart.csrs.sepc), (12, CODE + 4));
}

#[test]
fn an_access_across_pages_takes_effect_as_a_whole_or_not_at_all() {
    let mut mapped = Mapped::new(&[s("sd", 11, 12, 0)], MODES[0]);
    mapped.map(0, VIRTUAL, DATA, ALL);
    mapped.map(0, VIRTUAL + PAGE, DATA + 5 * PAGE, V | R | A);
    let hart = &mut mapped.machine.hart;
    (hart.x[11], hart.x[12]) = (VIRTUAL + PAGE - 4, u64::MAX);
    mapped.machine.raises(15, VIRTUAL + PAGE);
    assert_eq!(mapped.machine.host.load(DATA + PAGE - 8, 8), 0);
    mapped.map(0, VIRTUAL + PAGE, DATA + 5 * PAGE, ALL);
    mapped.machine.run(1);
    assert_eq!(
        mapped.machine.host.load(DATA + PAGE - 8, 8),
        0xffff_ffff << 32
    );
    assert_eq!(mapped.machine.host.load(DATA + 5 * PAGE, 8), 0xffff_ffff);
}

#[test]
fn an_instruction_across_pages_needs_both() {
    let mut mapped = Mapped::new(&[], MODES[0]);
    mapped.map(0, VIRTUAL, DATA, ALL);
    let add = i("addi", 10, 10, 1);
    let host = &mapped.machine.host;
    host.store(DATA + PAGE - 2, 2, (add & 0xffff).into());
    host.store(DATA + 5 * PAGE, 2, (add >> 16).into());
    mapped.machine.hart.pc = VIRTUAL + PAGE - 2;
    mapped.machine.raises(12, VIRTUAL + PAGE);
    mapped.map(0, VIRTUAL + PAGE, DATA + 5 * PAGE, ALL);
    mapped.machine.run(1);
    assert_eq!(mapped.machine.hart.x[10], 1);
}

/// Loads from the page, whose leaf then names other memory; after `fence` the load sees it or not.
fn sees_change(level: u32, flags: u64, fence: impl Fn(&mut Machine), at: u64) -> bool {
    let mut mapped = Mapped::new(&[i("ld", 10, 11, 0)], MODES[0]);
    let bytes = PAGE << (9 * level);
    let base = 0x4000_0000;
    let (old, new) = match level {
        0 => (DATA, DATA + PAGE),
        _ => (RAM, RAM + bytes),
    };
    let place = mapped.map(level, base, old, flags);
    let hart = &mut mapped.machine.hart;
    hart.csrs.satp |= 5 << 44;
    hart.x[11] = base + at;
    mapped.machine.run(1);
    let host = &mapped.machine.host;
    let old_value = mapped.machine.hart.x[10];
    // The larger leaf names no memory then: a load faults.
    if level == 0 {
        host.store(new + at % PAGE, 8, 42);
    }
    host.store(place, 8, new >> 12 << 10 | flags);
    fence(&mut mapped.machine);
    mapped.machine.hart.pc = CODE;
    mapped.machine.run(1);
    let hart = &mapped.machine.hart;
    hart.x[10] != old_value || hart.counts.exceptions > 0
}

#[test]
fn fences_drop_what_they_name() {
    type Fence = fn(&mut Machine);
    let fences: [(Fence, bool, bool); 6] = [
        (|_| {}, false, false),
        (
            |machine| machine.hart.drop_translations(None, None),
            true,
            true,
        ),
        (
            |machine| machine.hart.drop_translations(None, Some(5)),
            true,
            false,
        ),
        (
            |machine| machine.hart.drop_translations(None, Some(6)),
            false,
            false,
        ),
        (
            |machine| machine.hart.drop_translations(Some(0x4000_0123), None),
            true,
            true,
        ),
        (
            |machine| machine.hart.drop_translations(Some(0x5000_0000), None),
            false,
            false,
        ),
    ];
    for (number, (fence, local, global)) in fences.into_iter().enumerate() {
        for level in [0, 1] {
            assert_eq!(
                sees_change(level, ALL, fence, 8),
                local,
                "{number}, {level}"
            );
            assert_eq!(
                sees_change(level, ALL | G, fence, 8),
                global,
                "{number}, {level}"
            );
        }
        // A fence of one address of a large page drops its other pages, too.
        assert_eq!(sees_change(1, ALL, fence, 7 * PAGE), local, "{number}");
    }
}

#[test]
fn instructions_fence_as_their_operands_say() {
    for (rs1, rs2, drops) in [
        (0, 0, true),
        (13, 0, true),
        (14, 0, false),
        (0, 15, true),
        (0, 16, false),
    ] {
        let fence = |machine: &mut Machine| {
            machine
                .host
                .put_code(CODE + 0x100, &[r("sfence.vma", 0, rs1, rs2)]);
            machine.hart.x[13..17].copy_from_slice(&[0x4000_0000, 0x5000_0000, 5, 6]);
            machine.hart.pc = CODE + 0x100;
            assert_eq!(machine.run(1), Stop::Turn);
        };
        assert_eq!(sees_change(0, ALL, fence, 8), drops, "{rs1} {rs2}");
    }
}

#[test]
fn an_address_space_sees_only_its_own_and_global_pages() {
    for (flags, is_seen) in [(ALL, false), (ALL | G, true)] {
        let mut mapped = Mapped::new(&[i("ld", 10, 11, 0), i("ld", 12, 11, 0)], MODES[0]);
        let place = mapped.map(0, VIRTUAL, DATA, flags);
        mapped.machine.host.store(DATA, 8, 1);
        mapped.machine.host.store(DATA + PAGE, 8, 2);
        mapped.machine.hart.x[11] = VIRTUAL;
        mapped.machine.run(1);
        mapped
            .machine
            .host
            .store(place, 8, (DATA + PAGE) >> 12 << 10 | flags);
        mapped.machine.hart.csrs.satp |= 9 << 44;
        mapped.machine.run(1);
        assert_eq!(mapped.machine.hart.x[12] == 1, is_seen);
    }
}

#[test]
fn a_page_that_was_opened_needs_no_fence() {
    let mut mapped = Mapped::new(&[LOAD(), STORE()], MODES[0]);
    mapped.map(0, VIRTUAL, DATA, V | R | A);
    mapped.machine.hart.x[11] = VIRTUAL;
    mapped.machine.run(1);
    mapped.machine.raises(15, VIRTUAL + 8);
    mapped.map(0, VIRTUAL, DATA, ALL);
    mapped.machine.run(1);
    assert_eq!(mapped.machine.hart.counts.exceptions, 1);
}

#[test]
fn a_reset_drops_all() {
    assert!(sees_change(0, ALL | G, |machine| machine.hart.forget(), 8));
}

/// Numbers of CSRs.
const SSTATUS: i32 = 0x100;
const SATP: i32 = 0x180;

/// Loads from a page, changes a CSR, and loads again, in one run. Returns the loaded values; the second is
/// zero after a fault.
fn loads_around(change: u32, flags: u64, prepare: impl Fn(&mut Mapped)) -> [u64; 2] {
    let code = [i("ld", 10, 11, 0), change, i("ld", 12, 11, 0)];
    let mut mapped = Mapped::new(&code, MODES[0]);
    mapped.map(0, VIRTUAL, DATA, flags);
    for (page, value) in [(DATA, 1), (DATA + PAGE, 2)] {
        mapped.machine.host.store(page, 8, value);
    }
    prepare(&mut mapped);
    mapped.machine.hart.x[11] = VIRTUAL;
    assert_eq!(mapped.machine.run(3), Stop::Turn);
    [mapped.machine.hart.x[10], mapped.machine.hart.x[12]]
}

#[test]
fn a_load_after_a_write_of_satp_is_of_the_new_space() {
    let loaded = loads_around(i("csrrw", 0, 13, SATP), ALL, |mapped| {
        let first = mapped.root;
        mapped.root = mapped.machine.host.take_page();
        mapped.map(0, CODE, CODE, ALL);
        mapped.map(0, VIRTUAL, DATA + PAGE, ALL);
        mapped.machine.hart.x[13] = 8 << 60 | 5 << 44 | mapped.root >> 12;
        mapped.root = first;
    });
    assert_eq!(loaded, [1, 2]);
}

#[test]
fn a_load_after_a_write_of_sstatus_has_the_new_rights() {
    for (bit, flags) in [(status::SUM, ALL | U), (status::MXR, V | X | A)] {
        let loaded = loads_around(i("csrrc", 0, 13, SSTATUS), flags, |mapped| {
            mapped.machine.hart.csrs.sstatus |= bit;
            mapped.machine.hart.x[13] = bit;
        });
        assert_eq!(loaded, [1, 0], "{bit:#x}");
    }
}

#[test]
fn a_handler_has_not_the_rights_of_the_program() {
    // Its first instruction is in the program's own page, or loads from a page of the program.
    for (handler, cause) in [(VIRTUAL + PAGE, 12), (CODE, 13)] {
        let mut mapped = Mapped::new(&[i("ld", 12, 11, 0)], MODES[0]);
        let (code, page) = (VIRTUAL + PAGE, DATA + PAGE);
        mapped.map(0, VIRTUAL, DATA, ALL | U);
        mapped.map(0, code, page, ALL | U);
        let program = [i("ld", 10, 11, 0), of("ecall")];
        mapped.machine.host.put_code(page, &program);
        mapped.machine.host.store(DATA, 8, 1);
        let hart = &mut mapped.machine.hart;
        (hart.pc, hart.mode, hart.x[11]) = (code, Mode::User, VIRTUAL);
        hart.csrs.stvec = handler;
        assert_eq!(mapped.machine.run(3), Stop::Turn);
        let hart = &mapped.machine.hart;
        assert_eq!((hart.x[10], hart.x[12]), (1, 0));
        assert_eq!((hart.csrs.scause, hart.counts.exceptions), (cause, 2));
    }
}
