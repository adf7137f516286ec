# The start of a bare guest, at the first address of its image. a0 = hart ID, a1 = what the firmware
# passes on. A program gives its functions {main} and {trapped}; both never return.

    .section .text.entry, "ax"
    .globl _start
_start:
    csrw  sie, zero
    lla   t0, trap_vector
    csrw  stvec, t0

    # 1. Clear variables and stack.
    lla   t0, __bss_start
    lla   t1, __bss_end
1:  bgeu  t0, t1, 2f
    sd    zero, 0(t0)
    addi  t0, t0, 8
    j     1b

    # 2. Add the load address to each word that has an R_RISCV_RELATIVE relocation: its place, its
    #    type, its addend.
2:  lla   t0, __relocations_start
    lla   t1, __relocations_end
    lla   t2, __image_start
3:  bgeu  t0, t1, 4f
    ld    t3, 0(t0)
    ld    t4, 16(t0)
    add   t3, t3, t2
    add   t4, t4, t2
    sd    t4, 0(t3)
    addi  t0, t0, 24
    j     3b

4:  lla   sp, __stack_top
    call  {main}

    # A trap: {trapped} gets its cause, its address and its value, on an emptied stack.
    .balign 4
trap_vector:
    lla   sp, __stack_top
    csrr  a0, scause
    csrr  a1, sepc
    csrr  a2, stval
    call  {trapped}
