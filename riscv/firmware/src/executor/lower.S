# Translated code of the OS, in the weak hart's user mode.

    .option arch, +zicsr
    .section .text
    # Frame: ra, s0 to s11, tp, gp; then the pointer to the registers, and a register for the exit.
    .equ REGISTERS, 120
    .equ SPARE, 128
    .equ BYTES, 144

    # fn enter_lower(registers: *mut [u64; 32], address)
    # Loads all registers, and runs from the address on until a trap. Stores all registers.
    .globl enter_lower
enter_lower:
    addi    sp, sp, -BYTES
    sd      ra, 0(sp)
    sd      gp, 8(sp)
    sd      tp, 16(sp)
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11
    sd      s\n, 24+8*\n(sp)
    .endr
    sd      a0, REGISTERS(sp)
    csrw    mscratch, sp
    csrw    mepc, a1
    la      t0, 1f
    csrw    mtvec, t0
    li      t0, {MPP}
    csrc    mstatus, t0
    mv      t6, a0
    .irp    n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld      x\n, 8*\n(t6)
    .endr
    mret

    .balign 4
1:  csrrw   sp, mscratch, sp
    sd      t6, SPARE(sp)
    ld      t6, REGISTERS(sp)
    .irp    n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    sd      x\n, 8*\n(t6)
    .endr
    csrrw   t0, mscratch, zero
    sd      t0, 8*2(t6)
    ld      t0, SPARE(sp)
    sd      t0, 8*31(t6)
    # A trap in machine mode must be reported, not become a double trap (Smdbltrp).
    li      t0, {DOUBLE_TRAP}
    csrc    mstatus, t0
    la      t0, trap_entry
    csrw    mtvec, t0
    ld      ra, 0(sp)
    ld      gp, 8(sp)
    ld      tp, 16(sp)
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11
    ld      s\n, 24+8*\n(sp)
    .endr
    addi    sp, sp, BYTES
    ret
