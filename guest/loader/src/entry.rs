//! The loader's assembly.

use core::arch::{asm, global_asm};

/// Size of the loader's stack. It ends where the device tree begins: boot loaders put that near the
/// end of memory.
pub(crate) const STACK_BYTES: u64 = 256 << 10;
/// Alignment of the stack's end: a page, so that the stack shares no page with the device tree.
pub(crate) const STACK_ALIGN: u64 = 4096;

// The first instruction in flash; a0 is the hart ID, and a1 the device tree. After a trap the
// program prints a message, on the emptied stack. A second trap means that the stack is not memory.
// These instructions then print a message without a stack.
global_asm!(
    "
    .section .text.entry, \"ax\"
    .globl _start
_start:
    csrw sie, zero
    la   t0, first_trap
    csrw stvec, t0
    li   t0, -{stack_align}
    and  sp, a1, t0
    csrw sscratch, sp
    call main

    .balign 4
first_trap:
    la   t0, second_trap
    csrw stvec, t0
    csrr sp, sscratch
    csrr a0, scause
    csrr a1, sepc
    csrr a2, stval
    call trapped

    # DBCN's third function writes a byte; SRST's only one, shutdown for a failure.
    .balign 4
second_trap:
    la   s0, no_stack
1:  lbu  a0, 0(s0)
    beqz a0, 2f
    li   a7, 0x4442434e
    li   a6, 2
    ecall
    addi s0, s0, 1
    j    1b
2:  li   a7, 0x53525354
    li   a6, 0
    li   a0, 0
    li   a1, 1
    ecall
3:  wfi
    j    3b

no_stack:
    .asciz \"poorwill-loader: no memory below the device tree for a stack\\n\"
    .balign 4
",
    stack_align = const STACK_ALIGN,
);

/// Starts a kernel by Linux's boot protocol (Documentation/arch/riscv/boot.rst): a0 is the hart
/// ID, a1 the device tree, without translation. All other harts are stopped.
///
/// # Safety
///
/// A kernel must be loaded at `entry`.
pub(crate) unsafe fn start_kernel(entry: usize, hart: usize, tree: usize) -> ! {
    // SAFETY: as the caller says; `fence.i` makes the loaded code visible to instruction fetches.
    unsafe {
        asm!(
            "csrw satp, zero",
            "fence.i",
            "jr   {entry}",
            entry = in(reg) entry,
            in("a0") hart,
            in("a1") tree,
            options(noreturn),
        )
    }
}
