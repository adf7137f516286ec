//! Runs arbitrary code in all modes below machine mode, one entry at a time. Returns its registers,
//! and how each entry ended.
//!
//! The code has only the pages of [`map`], at [`PAGES`]: by page tables in U and S mode, and by a
//! second stage of translation in a guest. The handler below works after any change by the code
//! except to `stvec`, `satp`, `hgatp`, and the timer's interrupt enable.

use super::{os_csr, time};
use crate::{read_csr, write_csr};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicUsize, Ordering};

const ENTRIES: usize = 512;

/// Flags of an entry.
pub(crate) const READ: usize = 1 << 1;
/// Likewise.
pub(crate) const WRITE: usize = 1 << 2;
/// Likewise.
pub(crate) const EXECUTE: usize = 1 << 3;
const USER: usize = 1 << 4;
const VALID: usize = 1;
const ACCESSED_DIRTY: usize = 3 << 6;

/// Where the code sees its first page.
pub(crate) const PAGES: usize = 8 << 30;
const SV39: usize = 8 << 60;

/// A mode that code runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A program.
    U,
    /// The OS, or the hypervisor.
    S,
    /// A guest.
    Vs,
    /// A guest's program.
    Vu,
}

impl Mode {
    /// Whether it is a guest's.
    pub(crate) fn is_virtual(self) -> bool {
        matches!(self, Mode::Vs | Mode::Vu)
    }

    fn is_supervisor(self) -> bool {
        matches!(self, Mode::S | Mode::Vs)
    }
}

#[repr(C, align(4096))]
struct Table([AtomicUsize; ENTRIES]);
#[repr(C, align(16384))]
struct Root([AtomicUsize; 4 * ENTRIES]);

/// Root and middle for S-mode's pages, the same for pages of all modes, the last level of
/// both, and a way to the handler, by the middle and the last level.
static TABLES: [Table; 8] = [const { Table([const { AtomicUsize::new(0) }; ENTRIES]) }; 8];
/// A guest's second stage.
static GUEST: Root = Root([const { AtomicUsize::new(0) }; 4 * ENTRIES]);

const S_ROOT: usize = 0;
const S_MIDDLE: usize = 1;
const S_LAST: usize = 2;
const U_ROOT: usize = 3;
const U_MIDDLE: usize = 4;
const U_LAST: usize = 5;
const HANDLER_MIDDLE: usize = 6;
const HANDLER_LAST: usize = 7;

/// `hstatus`: the trap came from a guest; from its supervisor.
const SPV: usize = 1 << 7;
const SPVP: usize = 1 << 8;
/// `sstatus`
const SIE: usize = 1 << 1;
const SPIE: usize = 1 << 5;
const SPP: usize = 1 << 8;

/// Words of [`CONTEXT`], behind x0 to x31.
mod word {
    pub(super) const PC: usize = 32;
    pub(super) const STATUS: usize = 33;
    pub(super) const HYPERVISOR: usize = 34;
    pub(super) const HAS_HYPERVISOR: usize = 35;
    pub(super) const SPACE: usize = 36;
    pub(super) const STACK: usize = 37;
    pub(super) const VECTOR: usize = 38;
    pub(super) const BEGAN: usize = 39;
    pub(super) const ENDED: usize = 40;
    pub(super) const CAUSE: usize = 41;
    pub(super) const VALUE: usize = 42;
    pub(super) const HAS_TIMER: usize = 43;
    pub(super) const WORDS: usize = 44;
}

/// What an entry begins with and ends with.
static CONTEXT: [AtomicUsize; word::WORDS] = [const { AtomicUsize::new(0) }; word::WORDS];

unsafe extern "C" {
    fn sandbox_enter();
    safe fn sandbox_page();
}

global_asm!(
    r#"
    .section .text.sandbox, "ax"
    .balign 4096
    .globl sandbox_page
sandbox_page:
    # Traps of the code. It has only this page, and the data is reached without
    # translation.
    csrw    sscratch, sp
    csrw    satp, zero
    la      sp, {CONTEXT}
    .irp    n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd      x\n, 8*\n(sp)
    .endr
    csrr    t0, instret
    sd      t0, 8*{ENDED}(sp)
    csrr    t0, sscratch
    sd      t0, 8*2(sp)
    csrr    t0, sepc
    sd      t0, 8*{PC}(sp)
    csrr    t0, sstatus
    sd      t0, 8*{STATUS}(sp)
    csrr    t0, scause
    sd      t0, 8*{CAUSE}(sp)
    csrr    t0, stval
    sd      t0, 8*{VALUE}(sp)
    ld      t0, 8*{HAS_HYPERVISOR}(sp)
    beqz    t0, 1f
    csrr    t0, 0x600
    sd      t0, 8*{HYPERVISOR}(sp)
1:  ld      t0, 8*{VECTOR}(sp)
    csrw    stvec, t0
    ld      sp, 8*{STACK}(sp)
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11
    ld      s\n, 8*\n(sp)
    .endr
    ld      ra, 96(sp)
    addi    sp, sp, 112
    ret

    .globl sandbox_enter
sandbox_enter:
    addi    sp, sp, -112
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11
    sd      s\n, 8*\n(sp)
    .endr
    sd      ra, 96(sp)
    la      t0, {CONTEXT}
    sd      sp, 8*{STACK}(t0)
    mv      sp, t0
    la      t0, sandbox_page
    csrrw   t0, stvec, t0
    sd      t0, 8*{VECTOR}(sp)
    ld      t0, 8*{HAS_HYPERVISOR}(sp)
    beqz    t0, 1f
    ld      t0, 8*{HYPERVISOR}(sp)
    csrw    0x600, t0
1:  ld      t0, 8*{PC}(sp)
    csrw    sepc, t0
    ld      t0, 8*{STATUS}(sp)
    csrw    sstatus, t0
    ld      t0, 8*2(sp)
    csrw    sscratch, t0
    csrr    t0, instret
    sd      t0, 8*{BEGAN}(sp)
    .irp    n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld      x\n, 8*\n(sp)
    .endr
    ld      sp, 8*{SPACE}(sp)
    csrw    satp, sp
    csrr    sp, sscratch
    sret
    .balign 4096
    .section .text
"#,
    CONTEXT = sym CONTEXT,
    PC = const word::PC,
    STATUS = const word::STATUS,
    HYPERVISOR = const word::HYPERVISOR,
    HAS_HYPERVISOR = const word::HAS_HYPERVISOR,
    SPACE = const word::SPACE,
    STACK = const word::STACK,
    VECTOR = const word::VECTOR,
    BEGAN = const word::BEGAN,
    ENDED = const word::ENDED,
    CAUSE = const word::CAUSE,
    VALUE = const word::VALUE,
);

/// What code begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The mode that it runs in.
    pub(crate) mode: Mode,
    /// Its first instruction.
    pub(crate) pc: usize,
    /// `sstatus`, whose bits of the return are set as the mode needs them.
    pub(crate) status: usize,
    /// `hstatus`, likewise.
    pub(crate) hypervisor: usize,
    /// x0 to x31; the first is not used.
    pub(crate) x: [usize; 32],
}

/// The trap that ended it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// `scause`
    pub(crate) cause: usize,
    /// `stval`
    pub(crate) value: usize,
    /// `sepc`
    pub(crate) pc: usize,
    /// `sstatus`
    pub(crate) status: usize,
    /// `hstatus`, zero without H.
    pub(crate) hypervisor: usize,
    /// x0 to x31; the first is not used.
    pub(crate) x: [usize; 32],
    /// Instructions between, with some of the way there and back.
    pub(crate) instructions: usize,
}

/// Makes the page tables, without any page for the code.
pub(crate) fn set_up(has_hypervisor: bool) {
    let handler = sandbox_page as *const () as usize;
    for (root, middle, last) in [(S_ROOT, S_MIDDLE, S_LAST), (U_ROOT, U_MIDDLE, U_LAST)] {
        set(root, PAGES >> 30, next(middle));
        set(middle, 0, next(last));
        set(root, handler >> 30, next(HANDLER_MIDDLE));
    }
    set(HANDLER_MIDDLE, handler >> 21, next(HANDLER_LAST));
    let executable = READ | EXECUTE | VALID | ACCESSED_DIRTY;
    set(HANDLER_LAST, handler >> 12, handler >> 2 | executable);
    GUEST.0[PAGES >> 30].store(next(U_MIDDLE), Ordering::Relaxed);
    put(word::HAS_HYPERVISOR, usize::from(has_hypervisor));
    let has_timer = os_csr::read(os_csr::STIMECMP).is_ok();
    put(word::HAS_TIMER, usize::from(has_timer));
    if has_hypervisor {
        let root = SV39 | GUEST.0.as_ptr().addr() >> 12;
        let written = os_csr::write(os_csr::HGATP, root);
        assert!(written.is_ok(), "a hart with H has hgatp");
    }
}

/// Gives the code a physical page as its `number`th: in S-mode, and in all others, with
/// these flags, none of which is none at all.
pub(crate) fn map(number: usize, physical: usize, in_s: usize, in_others: usize) {
    let entry = |flags, owner| match flags {
        0 => 0,
        flags => physical >> 2 | flags | owner | VALID | ACCESSED_DIRTY,
    };
    set(S_LAST, number, entry(in_s, 0));
    set(U_LAST, number, entry(in_others, USER));
}

/// Forgets what translations were.
pub(crate) fn fence() {
    // SAFETY: nothing of this kernel's is translated.
    unsafe { asm!("sfence.vma") };
    if get(word::HAS_HYPERVISOR) != 0 {
        // SAFETY: nor has it a guest that runs now (`hfence.gvma`).
        unsafe { asm!(".insn 4, 0x62000073") };
    }
}

/// Runs code until it traps, for so many ticks at most: then the timer does.
pub(crate) fn run(start: &Start, ticks: u64) -> Ended {
    let [code, supervisor] = [start.mode.is_virtual(), start.mode.is_supervisor()];
    let bits = |set: bool, bits: usize| if set { bits } else { 0 };
    let status = start.status & !(SIE | SPP) | SPIE | bits(supervisor, SPP);
    let guest = bits(code, SPV) | bits(code && supervisor, SPVP);
    let space = match start.mode {
        Mode::U => space_of(U_ROOT),
        Mode::S => space_of(S_ROOT),
        Mode::Vs | Mode::Vu => 0,
    };
    (1..32).for_each(|number| put(number, start.x[number]));
    put(word::PC, start.pc);
    put(word::STATUS, status);
    put(word::HYPERVISOR, start.hypervisor & !(SPV | SPVP) | guest);
    put(word::SPACE, space);
    let enabled = read_csr!("sie");
    write_csr!("sie", super::TIMER);
    end_in(ticks);
    // SAFETY: the code has pages of its own alone, and its trap leads back here, with the
    // registers that a call keeps.
    unsafe {
        asm!(
            "jalr {enter}",
            enter = in(reg) sandbox_enter as *const () as usize,
            out("ra") _,
            clobber_abi("C"),
        );
    };
    write_csr!("sie", enabled);
    Ended {
        cause: get(word::CAUSE),
        value: get(word::VALUE),
        pc: get(word::PC),
        status: get(word::STATUS),
        hypervisor: get(word::HYPERVISOR),
        x: core::array::from_fn(get),
        instructions: get(word::ENDED).wrapping_sub(get(word::BEGAN)),
    }
}

/// Has the timer end what runs in so many ticks.
fn end_in(ticks: u64) {
    let end = time() + ticks;
    if get(word::HAS_TIMER) == 0 {
        let answer = sbi_rt::set_timer(end);
        assert!(answer.is_ok(), "the timer: {answer:?}");
        return;
    }
    let end = usize::try_from(end).expect("rv64's words have 64 bits");
    // `stimecmp`, of Sstc.
    write_csr!("0x14d", end);
}

fn space_of(root: usize) -> usize {
    SV39 | address(root) >> 12
}

fn address(table: usize) -> usize {
    TABLES[table].0.as_ptr().addr()
}

/// An entry for the next level.
fn next(table: usize) -> usize {
    address(table) >> 2 | VALID
}

fn set(table: usize, entry: usize, value: usize) {
    TABLES[table].0[entry % ENTRIES].store(value, Ordering::Relaxed);
}

fn put(word: usize, value: usize) {
    CONTEXT[word].store(value, Ordering::Relaxed);
}

fn get(word: usize) -> usize {
    CONTEXT[word].load(Ordering::Relaxed)
}
