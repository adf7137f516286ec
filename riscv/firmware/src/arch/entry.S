# Where every hart starts, and where traps into machine mode begin and end.
# Everything that can be said in Rust is said in Rust.

    .option arch, +zicsr

    # Fills from \from, which it moves, to \to, 64 bytes at a time.
    .macro fill from, to, word
10: bgeu    \from, \to, 11f
    .irp    at, 0, 8, 16, 24, 32, 40, 48, 56
    sd      \word, \at(\from)
    .endr
    addi    \from, \from, 64
    j       10b
11:
    .endm

    # sp becomes the top of the small stack of the hart that came as number s3, all
    # of which is painted.
    .macro take_stack
    la      t0, {STACKS}
    li      t1, {STACK_BYTES}
    mul     t2, t1, s3
    add     t0, t0, t2
    add     sp, t0, t1
    li      t2, {PAINT}
    fill    t0, sp, t2
    .endm

    .section .text.entry, "ax"
    .globl entry
entry:
    # The previous stage gives a0 = hart ID, a1 = device tree, a2 = fw_dynamic
    # information (OpenSBI, fw_dynamic.h). They are kept in s0 to s2.
    mv      s0, a0
    mv      s1, a1
    mv      s2, a2

    # 1. No interrupts, and no trap goes astray: until Rust runs, a trap parks.
    csrw    mie, zero
    csrw    mip, zero
    la      t0, park
    csrw    mtvec, t0
    csrw    mscratch, zero

    # 2. Monitor cores without S-mode (misa bit 18) never run the OS.
    csrr    t0, misa
    srli    t0, t0, 18
    andi    t0, t0, 1
    beqz    t0, park

    # 3. Take a number; it picks the stack.
    la      t0, arrivals
    li      t1, 1
    amoadd.w.aqrl s3, t1, (t0)
    li      t1, {MAX_HARTS}
    bgeu    s3, t1, park
    bnez    s3, 2f

    # 4. The first to arrive boots the machine, on the deep stack and on clean
    #    memory.
    take_stack
    la      t0, {DEEP_STACK}
    li      t1, {DEEP_STACK_BYTES}
    add     sp, t0, t1
    li      t2, {PAINT}
    fill    t0, sp, t2
    la      t0, bss_start
    la      t1, bss_end
    fill    t0, t1, zero
    mv      a0, s0
    mv      a1, s1
    mv      a2, s2
    call    boot_hart

    # 5. The others wait for it, each on its own stack.
2:  take_stack
    addi    sp, sp, -{STACK_HEAD}
    mv      a0, s0
    mv      a1, s3
    call    other_hart

    .balign 4
park:
    csrw    mie, zero
    wfi
    j       park

    .section .data.arrivals, "aw"
    .balign 4
arrivals:
    .word 0

    # Trap frame: x1 to x31 at 8 * number, then mepc and mstatus; above it the
    # head of the stack.
    .equ FRAME, 272
    .equ FRAME_MEPC, 256
    .equ FRAME_MSTATUS, 264

    .section .text
    .balign 4
    .globl trap_entry
trap_entry:
    # In S and U mode mscratch holds the top of this hart's stack, less the
    # pointer there; in machine mode it holds zero.
    csrrw   sp, mscratch, sp
    beqz    sp, machine_trap
    addi    sp, sp, -FRAME
    .irp    n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd      x\n, 8*\n(sp)
    .endr
    csrrw   t0, mscratch, zero
    sd      t0, 8*2(sp)
    csrr    t0, mepc
    sd      t0, FRAME_MEPC(sp)
    csrr    t0, mstatus
    sd      t0, FRAME_MSTATUS(sp)
    ld      tp, FRAME(sp)
    mv      a0, sp
    call    handle_trap

    ld      t0, FRAME_MEPC(sp)
    csrw    mepc, t0
    ld      t0, FRAME_MSTATUS(sp)
    csrw    mstatus, t0
    addi    t0, sp, FRAME
    csrw    mscratch, t0
    .irp    n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld      x\n, 8*\n(sp)
    .endr
    ld      sp, 8*2(sp)
    mret

machine_trap:
    # A fault of the firmware's own.
    csrrw   sp, mscratch, sp
    csrr    a0, mcause
    csrr    a1, mepc
    csrr    a2, mtval
    call    machine_fault

    # fn enter_supervisor(hart_id, argument, stack_top) -> !
    # mepc and mstatus are set; no register of ours is left for the OS to see.
    .globl enter_supervisor
enter_supervisor:
    csrw    mscratch, a2
    .irp    n, 1,2,3,4,5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    li      x\n, 0
    .endr
    mret

    # fn restart_on_stack(stack_top) -> !
    # Forgets the call chain and waits for the hart to be started again.
    .globl restart_on_stack
restart_on_stack:
    addi    sp, a0, -{STACK_HEAD}
    call    wait_for_start

    # fn call_on_stack(stack_top, function, argument)
    .globl call_on_stack
call_on_stack:
    addi    sp, sp, -16
    sd      ra, 8(sp)
    sd      s0, 0(sp)
    mv      s0, sp
    mv      sp, a0
    mv      a0, a2
    jalr    a1
    mv      sp, s0
    ld      s0, 0(sp)
    ld      ra, 8(sp)
    addi    sp, sp, 16
    ret
