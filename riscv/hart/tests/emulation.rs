//! Accesses that machine mode makes for the OS: decoded, translated, completed, or
//! given back as the fault that they were.
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are cut on purpose"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use poorwill_hart::emulation::{
    Access, Fault, Operation, OsTrap, PhysicalMemory, cause, instruction_of, redirect,
};
use poorwill_hart::{Csr, CsrAccess};
use proptest::prelude::*;

/// Bits of `mstatus`.
const SIE: u64 = 1 << 1;
const SPIE: u64 = 1 << 5;
const SPP: u64 = 1 << 8;
const MPP_S: u64 = 1 << 11;
const MPP: u64 = 3 << 11;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;
const SPELP: u64 = 1 << 23;
const GVA: u64 = 1 << 38;
const MPV: u64 = 1 << 39;
const MPELP: u64 = 1 << 41;

/// Flags of an entry.
const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;

const PAGE: u64 = 4096;
const CODE: u64 = 0x8000_0000;
const DEVICE: u64 = 0x1010_0000;
const SV39: u64 = 8 << 60;

#[derive(Debug, Default)]
struct Hart(RefCell<BTreeMap<u16, u64>>);

impl Hart {
    /// One with the H extension.
    fn with_guests(csrs: &[(Csr, u64)]) -> Self {
        let hart = Hart::default();
        let there = Csr::ALL.iter().map(|csr| (csr.number(), 0));
        hart.0.borrow_mut().extend(there);
        for (csr, value) in csrs {
            hart.write_csr(*csr, *value);
        }
        hart
    }

    fn without_guests() -> Self {
        let hart = Hart::default();
        let there = [Csr::Stvec, Csr::Sepc, Csr::Scause, Csr::Stval];
        hart.0
            .borrow_mut()
            .extend(there.map(|csr| (csr.number(), 0)));
        hart
    }

    fn all(&self) -> BTreeMap<u16, u64> {
        self.0.borrow().clone()
    }
}

impl CsrAccess for Hart {
    fn read_csr(&self, csr: Csr) -> Option<u64> {
        self.0.borrow().get(&csr.number()).copied()
    }

    fn write_csr(&self, csr: Csr, value: u64) {
        if let Some(own) = self.0.borrow_mut().get_mut(&csr.number()) {
            *own = value;
        }
    }
}

/// Memory from [`CODE`] on, by half-words.
#[derive(Debug, Default)]
struct Memory(BTreeMap<u64, u16>);

impl Memory {
    fn put(&mut self, at: u64, value: u64, bytes: u64) {
        for offset in (0..bytes).step_by(2) {
            self.0.insert(at + offset, (value >> (8 * offset)) as u16);
        }
    }
}

impl PhysicalMemory for Memory {
    fn read(&self, address: u64, bytes: u64) -> Option<u64> {
        assert!(address.is_multiple_of(bytes), "{address:#x} by {bytes}");
        let half = |offset| Some(u64::from(*self.0.get(&(address + offset))?) << (8 * offset));
        (0..bytes).step_by(2).map(half).sum()
    }
}

fn fault(cause: u64) -> Fault {
    Fault {
        cause,
        pc: CODE,
        status: MPP_S,
        value: DEVICE,
        instruction: 0,
        guest_address: 0,
        satp: 0,
    }
}

fn registers() -> [usize; 32] {
    let mut x = core::array::from_fn(|number| DEVICE as usize + 64 * number);
    // The first is not used, whatever it holds.
    x[0] = 0x5555;
    x
}

/// The access of an instruction without translation.
fn access(bits: u32, cause: u64) -> Option<Access> {
    let mut memory = Memory::default();
    memory.put(CODE, bits.into(), 4);
    Access::of(
        &fault(cause),
        &registers(),
        &Hart::without_guests(),
        &memory,
    )
}

/// Each form of load: instruction, base, offset, bytes, register, whether signed, bytes
/// of the instruction. As the GNU assembler has them, and LLVM's those of Zcb.
const LOADS: [(u32, usize, i64, u64, usize, bool, usize); 16] = [
    (0x0085_0583, 10, 8, 1, 11, true, 4),     // lb a1, 8(a0)
    (0xff05_1583, 10, -16, 2, 11, true, 4),   // lh a1, -16(a0)
    (0x8005_2583, 10, -2048, 4, 11, true, 4), // lw a1, -2048(a0)
    (0x7f85_3583, 10, 2040, 8, 11, true, 4),  // ld a1, 2040(a0)
    (0x0015_4583, 10, 1, 1, 11, false, 4),    // lbu a1, 1(a0)
    (0x0025_5583, 10, 2, 2, 11, false, 4),    // lhu a1, 2(a0)
    (0x0045_6f83, 10, 4, 4, 31, false, 4),    // lwu t6, 4(a0)
    (0x0045_2003, 10, 4, 4, 0, true, 4),      // lw zero, 4(a0)
    (0x416c, 10, 68, 4, 11, true, 2),         // c.lw a1, 68(a0)
    (0x7d6c, 10, 248, 8, 11, true, 2),        // c.ld a1, 248(a0)
    (0x41f2, 2, 28, 4, 3, true, 2),           // c.lwsp gp, 28(sp)
    (0x71fe, 2, 504, 8, 3, true, 2),          // c.ldsp gp, 504(sp)
    (0x816c, 10, 3, 1, 11, false, 2),         // c.lbu a1, 3(a0)
    (0x852c, 10, 2, 2, 11, false, 2),         // c.lhu a1, 2(a0)
    (0x856c, 10, 2, 2, 11, true, 2),          // c.lh a1, 2(a0)
    (0x00b5_0003, 10, 11, 1, 0, true, 4),     // lb zero, 11(a0)
];

/// The same of stores.
const STORES: [(u32, usize, i64, u64, usize, usize); 10] = [
    (0xfeb5_0fa3, 10, -1, 1, 11, 4),    // sb a1, -1(a0)
    (0x00b5_1823, 10, 16, 2, 11, 4),    // sh a1, 16(a0)
    (0x80b5_2023, 10, -2048, 4, 11, 4), // sw a1, -2048(a0)
    (0x7e05_3c23, 10, 2040, 8, 0, 4),   // sd zero, 2040(a0)
    (0xc16c, 10, 68, 4, 11, 2),         // c.sw a1, 68(a0)
    (0xfd6c, 10, 248, 8, 11, 2),        // c.sd a1, 248(a0)
    (0xce0e, 2, 28, 4, 3, 2),           // c.swsp gp, 28(sp)
    (0xff8e, 2, 504, 8, 3, 2),          // c.sdsp gp, 504(sp)
    (0x896c, 10, 3, 1, 11, 2),          // c.sb a1, 3(a0)
    (0x8d2c, 10, 2, 2, 11, 2),          // c.sh a1, 2(a0)
];

#[test]
fn every_form_of_load_is_known() {
    for (bits, base, offset, bytes, to, signed, length) in LOADS {
        let found = access(bits, cause::LOAD_ACCESS).unwrap_or_else(|| panic!("{bits:#x}"));
        let mut x = registers();
        let address = (x[base] as u64).wrapping_add_signed(offset);
        assert_eq!((found.address, found.bytes), (address, bytes), "{bits:#x}");
        assert_eq!(found.operation, Operation::Load);
        // All bits above those that were loaded are noise.
        assert_eq!(found.complete(&mut x, 0xa5a5_a5a5_a5a5_a5a5), length);
        let expected = match (bytes, signed) {
            (1, false) => 0xa5,
            (2, false) => 0xa5a5,
            (4, false) => 0xa5a5_a5a5,
            (1, true) => 0xffff_ffff_ffff_ffa5,
            (2, true) => 0xffff_ffff_ffff_a5a5,
            (4, true) => 0xffff_ffff_a5a5_a5a5,
            _ => 0xa5a5_a5a5_a5a5_a5a5,
        };
        let mut after = registers();
        if to != 0 {
            after[to] = expected;
        }
        assert_eq!(x, after, "{bits:#x}");
        assert_eq!(access(bits, cause::STORE_ACCESS), None, "changed meanwhile");
    }
}

#[test]
fn every_form_of_store_is_known() {
    for (bits, base, offset, bytes, from, length) in STORES {
        let found = access(bits, cause::STORE_ACCESS).unwrap_or_else(|| panic!("{bits:#x}"));
        let mut x = registers();
        let address = (x[base] as u64).wrapping_add_signed(offset);
        assert_eq!((found.address, found.bytes), (address, bytes), "{bits:#x}");
        let all = if from == 0 { 0 } else { x[from] as u64 };
        let value = all & (u64::MAX >> (64 - 8 * bytes));
        assert_eq!(found.operation, Operation::Store(value), "{bits:#x}");
        assert_eq!(found.complete(&mut x, u64::MAX), length);
        assert_eq!(x, registers());
        assert_eq!(access(bits, cause::LOAD_ACCESS), None, "changed meanwhile");
    }
}

#[test]
fn all_else_is_left_to_the_os() {
    for (what, bits) in [
        ("lr.w", 0x1005_25af),
        ("amoadd.w", 0x00b5_25af),
        ("flw", 0x0005_2587),
        ("fld", 0x0005_3587),
        ("fsd", 0x00b5_3027),
        ("vle8.v", 0x0205_0087),
        ("c.fld", 0x210c),
        ("c.fsdsp", 0xa02e),
        ("hlv.w", 0x6805_45f3),
        ("cbo.zero", 0x0045_200f),
        ("c.lwsp zero", 0x4072),
        ("c.ldsp zero", 0x607e),
        ("a load of no width", 0x0005_7583),
        ("a store of no width", 0x00b5_4023),
        ("c.sh with a reserved bit", 0x8d6c),
        ("zeros", 0),
        ("ones", u32::MAX),
    ] {
        for cause in [cause::LOAD_ACCESS, cause::STORE_ACCESS] {
            assert_eq!(access(bits, cause), None, "{what}");
        }
    }
}

#[test]
fn a_misaligned_access_is_left_to_the_os() {
    for offset in 1..8 {
        // ld a1, offset(a0)
        let bits = 0x0005_3583 | offset << 20;
        assert_eq!(access(bits, cause::LOAD_ACCESS), None);
    }
}

/// A machine whose code is at `CODE` behind tables of three levels.
struct Mapped {
    memory: Memory,
    hart: Hart,
    fault: Fault,
}

const TABLES: u64 = CODE + 0x10_0000;
/// Where code and device are mapped: the code at the end of a page, as the instruction lies
/// on two.
const VIRTUAL_CODE: u64 = 0x3f_c000_0ffe;
const VIRTUAL_DEVICE: u64 = 0x3f_c000_5000;

/// Maps the page of `address` in tables from `root` on, which has room for those below.
fn map(memory: &mut Memory, root: u64, address: u64, entry: u64) {
    let number = |level: u32| address >> (12 + 9 * level) & 0x1ff;
    let [middle, low] = [root + 4 * PAGE, root + 5 * PAGE];
    let root = root + (address >> 39 & 3) * PAGE;
    for (table, next) in [
        (root + 8 * number(2), middle),
        (middle + 8 * number(1), low),
    ] {
        memory.put(table, next >> 2 | V, 8);
    }
    for empty in 0..512 {
        let at = low + 8 * empty;
        if !memory.0.contains_key(&at) {
            memory.put(at, 0, 8);
        }
    }
    memory.put(low + 8 * number(0), entry, 8);
}

fn leaf(physical: u64, flags: u64) -> u64 {
    physical >> 2 | flags | V
}

impl Mapped {
    /// `lw a1, 4(a0)`, or `sw`, with what the entries of code and device allow.
    fn new(cause: u64, code: u64, device: u64) -> Self {
        let mut memory = Memory::default();
        let bits: u64 = if cause == cause::LOAD_ACCESS {
            0x0045_2583
        } else {
            0x00b5_2223
        };
        // Its halves are pages apart.
        memory.put(CODE + 0x2ffe, bits & 0xffff, 2);
        memory.put(CODE + 0x7000, bits >> 16, 2);
        map(&mut memory, TABLES, VIRTUAL_CODE, leaf(CODE + 0x2000, code));
        let next = VIRTUAL_CODE + 2;
        map(&mut memory, TABLES, next, leaf(CODE + 0x7000, code));
        map(&mut memory, TABLES, VIRTUAL_DEVICE, leaf(DEVICE, device));
        let fault = Fault {
            pc: VIRTUAL_CODE,
            satp: SV39 | 0xabc << 44 | TABLES >> 12,
            ..fault(cause)
        };
        Mapped {
            memory,
            hart: Hart::with_guests(&[]),
            fault,
        }
    }

    fn access(&self) -> Option<u64> {
        let mut x = registers();
        x[10] = VIRTUAL_DEVICE as usize;
        let access = Access::of(&self.fault, &x, &self.hart, &self.memory)?;
        Some(access.address)
    }
}

#[test]
fn an_instruction_is_fetched_if_its_caller_may_execute_it() {
    let fetched = |code| {
        let mapped = Mapped::new(cause::LOAD_ACCESS, code, R);
        instruction_of(&mapped.fault, &mapped.hart, &mapped.memory)
    };
    assert_eq!(fetched(X), Some(0x0045_2583));
    assert_eq!(fetched(R), None);
    assert_eq!(fetched(X | U), None);
}

#[test]
fn the_caller_needs_the_rights() {
    const HERE: Option<u64> = Some(DEVICE + 4);
    let load = |code, device, status| {
        let mut mapped = Mapped::new(cause::LOAD_ACCESS, code, device);
        mapped.fault.status = status;
        mapped.access()
    };
    let store = |code, device| Mapped::new(cause::STORE_ACCESS, code, device).access();
    let user = 0;
    assert_eq!(load(X, R, MPP_S), HERE, "code that only executes");
    assert_eq!(load(R | W, R, MPP_S), None, "code that does not");
    assert_eq!(load(X, X, MPP_S), None, "a device that only executes");
    assert_eq!(load(X, X, MPP_S | MXR), HERE, "which may then be read");
    assert_eq!(
        load(R | W, R, MPP_S | MXR),
        None,
        "but not the other way round"
    );
    assert_eq!(load(X, R | U, MPP_S), None, "a user's page");
    assert_eq!(load(X, R | U, MPP_S | SUM), HERE, "which S-mode may use");
    assert_eq!(load(X | U, R, MPP_S | SUM), None, "but not execute");
    assert_eq!(load(X | U, R | U, user), HERE, "a user");
    assert_eq!(load(X, R | U, user | SUM), None, "the kernel's code");
    assert_eq!(load(X | U, R, user | SUM), None, "the kernel's page");
    assert_eq!(load(X, W, MPP_S), None, "a reserved entry");
    assert_eq!(store(X, R | W), HERE);
    assert_eq!(store(X, R), None, "what is only read");
}

#[test]
fn tables_that_a_hart_would_not_take_are_refused() {
    let with = |change: &dyn Fn(&mut Mapped)| {
        let mut mapped = Mapped::new(cause::LOAD_ACCESS, X, R);
        assert!(mapped.access().is_some());
        change(&mut mapped);
        mapped.access()
    };
    let low = |address: u64| TABLES + 5 * PAGE + 8 * (address >> 12 & 0x1ff);
    let root = TABLES + 8 * (VIRTUAL_CODE >> 30 & 0x1ff);
    let unmap = |mapped: &mut Mapped, at| mapped.memory.put(at, 0, 8);
    assert_eq!(with(&|m| unmap(m, low(VIRTUAL_CODE))), None, "no code");
    assert_eq!(with(&|m| unmap(m, low(VIRTUAL_CODE + 2))), None, "its half");
    assert_eq!(with(&|m| unmap(m, low(VIRTUAL_DEVICE))), None, "no page");
    assert_eq!(with(&|m| unmap(m, root)), None, "no table");
    let elsewhere = |m: &mut Mapped| m.memory.put(root, DEVICE >> 2 | V, 8);
    assert_eq!(with(&elsewhere), None, "a table in a device");
    let odd = |m: &mut Mapped| m.memory.put(root, (TABLES + 4 * PAGE) >> 2 | V | U, 8);
    assert_eq!(with(&odd), None, "a table for users");
    let high = |m: &mut Mapped| m.fault.pc |= 1 << 50;
    assert_eq!(with(&high), None, "no such address");
    let mode = |m: &mut Mapped| m.fault.satp = 11 << 60 | TABLES >> 12;
    assert_eq!(with(&mode), None, "an unknown mode");
    let shared = low(VIRTUAL_DEVICE);
    let napot = |code: u64| {
        with(&|m| {
            m.memory
                .put(shared, leaf(DEVICE + (code << 12), R) | 1 << 63, 8)
        })
    };
    // The page is the sixth of its unit.
    assert_eq!(napot(8), Some(DEVICE + 0x5004), "one of sixteen pages");
    assert_eq!(napot(4), None, "a unit of an unknown length");
    let typed = |m: &mut Mapped| m.memory.put(shared, leaf(DEVICE, R) | 2 << 61, 8);
    assert_eq!(with(&typed), Some(DEVICE + 4), "a memory type");
    let reserved = |m: &mut Mapped| m.memory.put(shared, leaf(DEVICE, R) | 3 << 61, 8);
    assert_eq!(with(&reserved), None, "a reserved memory type");
}

/// The same as a guest's, whose physical addresses are shifted by the second stage.
fn guest(stage_2: u64) -> Mapped {
    let mut mapped = Mapped::new(cause::LOAD_ACCESS, X, R);
    let second = CODE + 0x20_0000;
    // What the guest takes for its memory and for the device is where it says; its
    // tables, its code and the device take a page each.
    let pages = [CODE + 0x2000, CODE + 0x7000, DEVICE];
    let tables = (0..6).map(|n| TABLES + n * PAGE);
    for page in tables.chain(pages) {
        let flags = if page == DEVICE { stage_2 } else { R | X | U };
        let low = second + (5 + (page >> 31)) * PAGE;
        let middle = second + (0x20 + (page >> 30 & 3)) * PAGE;
        let memory = &mut mapped.memory;
        memory.put(second + 8 * (page >> 30), middle >> 2 | V, 8);
        memory.put(middle + 8 * (page >> 21 & 0x1ff), low >> 2 | V, 8);
        memory.put(low + 8 * (page >> 12 & 0x1ff), leaf(page, flags), 8);
    }
    mapped.hart = Hart::with_guests(&[
        (Csr::Vsatp, mapped.fault.satp),
        // The low two bits of the root's number are not there.
        (Csr::Hgatp, SV39 | 7 << 44 | second >> 12 | 3),
    ]);
    mapped.fault.satp = 0;
    mapped.fault.status = MPP_S | MPV;
    mapped
}

#[test]
fn a_guest_needs_the_rights_of_both_stages() {
    assert_eq!(guest(R | U).access(), Some(DEVICE + 4));
    assert_eq!(guest(R).access(), None, "not the guest's");
    assert_eq!(guest(X | U).access(), None, "not to be read");
    let mut mapped = guest(X | U);
    mapped.hart.write_csr(Csr::Vsstatus, MXR);
    assert_eq!(mapped.access(), None, "the guest's MXR is of its own stage");
    mapped.fault.status |= MXR;
    assert_eq!(
        mapped.access(),
        Some(DEVICE + 4),
        "the hypervisor's is of both"
    );
    mapped.hart.write_csr(Csr::Hgatp, SV39 | CODE >> 12);
    assert_eq!(mapped.access(), None, "no second stage at all");
    let mut mapped = guest(R | U);
    mapped.hart.write_csr(Csr::Hgatp, 0);
    assert_eq!(mapped.access(), Some(DEVICE + 4), "one stage alone");
    mapped.fault.pc = 1 << 41;
    mapped.hart.write_csr(Csr::Vsatp, 0);
    assert_eq!(mapped.access(), None, "no memory there");
}

#[test]
fn other_registers_and_data_are_left_to_the_os() {
    const UBE: u64 = 1 << 6;
    const VSBE: u64 = 1 << 5;
    const SBE: u64 = 1 << 36;
    let wide = |lowest: u32| [0, 2].map(|length| length << lowest);
    let load = |status| {
        let device = if status & MPP == 0 { R | U } else { R };
        let mut mapped = Mapped::new(cause::LOAD_ACCESS, device | X, device);
        mapped.fault.status = status;
        mapped.access().is_some()
    };
    for status in [MPP_S | UBE, MPP_S | 1 << 32].into_iter().chain(wide(32)) {
        assert!(load(status), "U-mode's are not S-mode's: {status:#x}");
    }
    for (status, what) in [
        (UBE, "a big-endian program"),
        (1 << 32, "a 32-bit program"),
        (SBE, "a big-endian OS's program"),
        (MPP_S | SBE, "a big-endian OS"),
        (MPP_S | 1 << 34, "a 32-bit OS"),
    ] {
        assert!(!load(status), "{what}");
    }
    let load = |status, hstatus, vsstatus| {
        let mut mapped = guest(R | U);
        mapped.hart.write_csr(Csr::Hstatus, hstatus);
        mapped.hart.write_csr(Csr::Vsstatus, vsstatus);
        mapped.fault.status |= status;
        mapped.access().is_some()
    };
    assert!(load(0, 2 << 32, UBE | 1 << 32), "the guest's program's");
    assert!(!load(0, VSBE, 0), "a big-endian guest");
    assert!(!load(0, 1 << 32, 0), "a 32-bit guest");
    assert!(!load(SBE, 0, 0), "a big-endian hypervisor");
}

#[test]
fn a_fault_goes_to_the_supervisor() {
    for (vector, status, after) in [
        // From S-mode, interrupts on.
        (0x8020_0000, MPP_S | SIE, SPP | SPIE | MPP_S),
        // From U-mode, by a vectored stvec; what is not of the trap stays.
        (0x8020_0001, SPP | SUM, SUM | MPP_S),
        // Off, and they had been on before.
        (0x8020_0000, MPP_S | SPIE, SPP | MPP_S),
        // Between a jump and its landing pad; and not, though the trap before was.
        (0x8020_0000, MPELP, SPELP | MPP_S),
        (0x8020_0000, SPELP, MPP_S),
    ] {
        let hart = Hart::without_guests();
        hart.write_csr(Csr::Stvec, vector);
        let before = Fault {
            status,
            ..fault(cause::STORE_ACCESS)
        };
        let left = redirect(&before, &hart);
        assert_eq!((left.pc, left.status), (0x8020_0000, after));
        let read = |csr| hart.read_csr(csr).unwrap();
        assert_eq!(read(Csr::Sepc), CODE);
        assert_eq!(read(Csr::Scause), cause::STORE_ACCESS);
        assert_eq!(read(Csr::Stval), DEVICE);
    }
}

#[test]
fn a_guests_fault_goes_to_the_hypervisor() {
    const HSTATUS: u64 = 0x2_0000_0000;
    let hart = Hart::with_guests(&[
        (Csr::Stvec, 0x8020_0000),
        (Csr::Hstatus, HSTATUS),
        (Csr::Htval, 99),
    ]);
    let from = |status| Fault {
        status,
        instruction: 0x77,
        guest_address: 0x2000_4400,
        ..fault(cause::LOAD_ACCESS)
    };
    let left = redirect(&from(MPP_S | MPV | GVA | SIE), &hart);
    assert_eq!(left.status, GVA | SPP | SPIE | MPP_S);
    let read = |csr| hart.read_csr(csr).unwrap();
    let [gva, spv, spvp] = [6, 7, 8].map(|bit| 1 << bit);
    assert_eq!(read(Csr::Hstatus), HSTATUS | gva | spv | spvp);
    assert_eq!((read(Csr::Htval), read(Csr::Htinst)), (0x2000_4400, 0x77));
    // From its user, and then from the hypervisor itself, which leaves SPVP alone.
    redirect(&from(MPV | GVA), &hart);
    assert_eq!(read(Csr::Hstatus), HSTATUS | gva | spv);
    redirect(&from(MPP_S | MPV | GVA), &hart);
    redirect(&from(MPP_S), &hart);
    assert_eq!(read(Csr::Hstatus), HSTATUS | spvp);
    assert_eq!(read(Csr::Vscause), 0, "the guest knows of none");
}

#[test]
fn a_guest_gets_its_fault_where_it_is_delegated() {
    let hart = Hart::with_guests(&[
        (Csr::Hedeleg, 1 << cause::LOAD_ACCESS),
        (Csr::Vstvec, 0x9000_0001),
        (Csr::Vsstatus, SIE | SUM),
        (Csr::Stvec, 0x8020_0000),
    ]);
    let fault = Fault {
        status: MPV | GVA | SIE,
        ..fault(cause::LOAD_ACCESS)
    };
    let left = redirect(&fault, &hart);
    assert_eq!(
        (left.pc, left.status),
        (0x9000_0000, MPV | GVA | SIE | MPP_S)
    );
    let read = |csr| hart.read_csr(csr).unwrap();
    assert_eq!(read(Csr::Vsstatus), SUM | SPIE);
    let found = [Csr::Vsepc, Csr::Vscause, Csr::Vstval].map(read);
    assert_eq!(found, [CODE, cause::LOAD_ACCESS, DEVICE]);
    assert_eq!(read(Csr::Scause), 0);
    let landing = Fault {
        status: fault.status | MPELP,
        ..fault
    };
    assert_eq!(redirect(&landing, &hart).status & (MPELP | SPELP), 0);
    assert_eq!(read(Csr::Vsstatus) & SPELP, SPELP);
    // A store is not delegated; nor is the hypervisor's own load.
    redirect(
        &Fault {
            cause: cause::STORE_ACCESS,
            ..fault
        },
        &hart,
    );
    assert_eq!(read(Csr::Scause), cause::STORE_ACCESS);
    let own = Fault {
        status: MPP_S,
        ..fault
    };
    assert_eq!(redirect(&own, &hart).pc, 0x8020_0000);
}

#[test]
fn a_guests_landing_pad_is_expected_in_the_guest() {
    const SOFTWARE_CHECK: u64 = 18;
    let hart = Hart::with_guests(&[(Csr::Hedeleg, 1 << SOFTWARE_CHECK), (Csr::Vsstatus, SUM)]);
    let fault = |cause| Fault {
        status: MPV | MPELP | SPELP,
        ..fault(cause)
    };
    // The hypervisor's own expectation, of the trap before, is left alone.
    let left = redirect(&fault(SOFTWARE_CHECK), &hart);
    assert_eq!(left.status, MPV | SPELP | MPP_S);
    assert_eq!(hart.read_csr(Csr::Vsstatus), Some(SUM | SPELP));
    // Where the hypervisor handles it, the expectation is kept for it.
    let left = redirect(&fault(cause::LOAD_ACCESS), &hart);
    assert_eq!(left.status, SPELP | MPP_S);
    // A cause beyond those of `hedeleg` is the hypervisor's.
    redirect(&fault(64 + SOFTWARE_CHECK), &hart);
    assert_eq!(hart.read_csr(Csr::Scause), Some(64 + SOFTWARE_CHECK));
}

#[test]
fn machine_mode_handles_its_own_traps_and_no_other() {
    let interrupt = |number: u64| OsTrap::of(1 << 63 | number);
    assert_eq!(interrupt(3), OsTrap::OtherHart);
    assert_eq!(interrupt(11), OsTrap::OtherHart);
    assert_eq!(interrupt(7), OsTrap::Timer);
    // The OS's, a guest's, a counter's, those of errors, and a vendor's.
    for number in [0, 1, 2, 5, 6, 9, 10, 12, 13, 35, 43, 63] {
        let known = u32::try_from(number).unwrap();
        assert_eq!(interrupt(number), OsTrap::Unknown(known));
    }
    assert_eq!(interrupt(u64::MAX >> 1), OsTrap::Unknown(u32::MAX));
    assert_eq!(OsTrap::of(9), OsTrap::Call);
    assert_eq!(OsTrap::of(16), OsTrap::DoubleTrap);
    assert_eq!([5, 7].map(OsTrap::of), [OsTrap::Access; 2]);
    assert_eq!(OsTrap::of(2), OsTrap::IllegalInstruction);
    let others = (0..200).filter(|cause| ![2, 5, 7, 9, 16].contains(cause));
    for cause in others.chain([u64::MAX >> 1]) {
        assert_eq!(OsTrap::of(cause), OsTrap::Exception, "{cause}");
    }
}

proptest! {
    /// No instruction, address or table makes it panic, and none reads beyond memory.
    #[test]
    fn anything_may_fault(
        bits: u32, pc: u64, satp: u64, status: u64, cause in prop_oneof![0..70_u64, any::<u64>()],
        x: [usize; 32], word: u64,
    ) {
        struct Anything(u32, u64);
        impl PhysicalMemory for Anything {
            fn read(&self, address: u64, bytes: u64) -> Option<u64> {
                assert!(address.is_multiple_of(bytes));
                match bytes {
                    2 => Some(u64::from(self.0) >> (8 * (address & 2)) & 0xffff),
                    _ => Some(self.1),
                }
            }
        }
        let hart = Hart::with_guests(&[(Csr::Vsatp, satp), (Csr::Hgatp, !satp)]);
        let fault = Fault { cause, pc: pc & !1, status, value: 0, instruction: 0, guest_address: 0, satp };
        if let Some(access) = Access::of(&fault, &x, &hart, &Anything(bits, word)) {
            prop_assert!(access.address.is_multiple_of(access.bytes));
            let mut x = x;
            prop_assert!([2, 4].contains(&access.complete(&mut x, word)));
        }
        let before = hart.all();
        let left = redirect(&fault, &hart);
        prop_assert_eq!(left.status & (MPP | MPELP), MPP_S);
        prop_assert_eq!(before.len(), hart.all().len());
    }
}
