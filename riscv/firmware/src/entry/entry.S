# Entry of every hart at the start, and entry and exit of traps into machine mode. This file has
# only code that cannot be Rust.

    .option arch, +zicsr
    .equ miselect, 0x350
    .equ mireg, 0x351

    # Fills memory from \from to \to with \word, 64 bytes at a time. Changes \from.
    .macro fill from, to, word
10: bgeu    \from, \to, 11f
    .irp    at, 0, 8, 16, 24, 32, 40, 48, 56
    sd      \word, \at(\from)
    .endr
    addi    \from, \from, 64
    j       10b
11:
    .endm

    .section .text.entry, "ax"
    .globl entry
entry:
    # The previous stage passes a0 = hart ID, a1 = device tree, a2 = fw_dynamic information
    # (OpenSBI, fw_dynamic.h). s0 to s2 keep them.
    mv      s0, a0
    mv      s1, a1
    mv      s2, a2

    # 1. Interrupts off; until Rust runs, a trap parks the hart. After a reset, traps in machine
    #    mode are fatal on harts with Smdbltrp (mstatus.MDT). On harts with Smrnmi (mnstatus, 0x744,
    #    NMIE) they go to an unknown address.
    csrw    mie, zero
    csrw    mip, zero
    li      t1, {DOUBLE_TRAP}
    csrc    mstatus, t1
    la      t0, 1f
    csrw    mtvec, t0
    csrsi   0x744, 1 << 3
    .balign 4
1:  csrc    mstatus, t1
    la      t0, park
    csrw    mtvec, t0
    csrw    mscratch, zero

    # 2. Monitor cores without S-mode (misa bit 18) never run the OS. They wait for their place in
    #    the table, as the weak hart has one.
    csrr    t0, misa
    srli    t0, t0, 18
    andi    t0, t0, 1
    beqz    t0, waits

    # 3. The first hart to arrive boots the machine, on the deep stack, with clean memory.
    la      t0, arrivals
    li      t1, 1
    amoadd.w.aqrl t1, t1, (t0)
    bnez    t1, waits
boots:
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

    # 4. The other harts have no stack until the boot hart has placed it. They wait for an interrupt
    #    by MSIP or by their machine-mode IMSIC file. The file is opened for IPIs (AIA, 3.8):
    #    eithreshold (0x72) zero, eie0 (0xc0), eidelivery (0x70). A hart without a file traps here,
    #    and continues.
waits:
    la      t0, 2f
    csrw    mtvec, t0
    li      t1, 1
    li      t0, 0x72
    csrw    miselect, t0
    csrw    mireg, zero
    li      t0, 0xc0
    csrw    miselect, t0
    li      t0, 1 << {IPI_IDENTITY}
    csrw    mireg, t0
    li      t0, 0x70
    csrw    miselect, t0
    csrw    mireg, t1
    .balign 4
2:  li      t0, {DOUBLE_TRAP}
    csrc    mstatus, t0
    la      t0, park
    csrw    mtvec, t0
    li      t0, {MACHINE_INTERRUPTS}
    csrw    mie, t0
    la      t0, {PLACED}
    la      t5, {OFFER}
    j       4f
3:  wfi
4:  ld      t1, (t5)
    beq     t1, s0, 7f
    ld      t1, (t0)
    beqz    t1, 3b
    fence   r, rw

    # 5. A hart's ID and its stack have the same index. A hart that is not in the table parks, since
    #    no OS can start it.
    ld      t2, (t1)
    addi    t3, t1, 8
    li      a0, 0
5:  bgeu    a0, t2, park
    ld      t4, (t3)
    beq     t4, s0, 6f
    addi    t3, t3, 8
    addi    a0, a0, 1
    j       5b
6:  li      t2, {STACK_BYTES}
    addi    t3, a0, 1
    mul     t2, t2, t3
    li      t3, {TABLE_BYTES}
    add     t1, t1, t2
    add     a1, t1, t3
    addi    sp, a1, -{STACK_HEAD}
    call    other_hart

    # 6. The first hart to arrive may not boot, and offers the start to this one (offer.rs).
    #    This hart boots the machine as if it had come first. Before that, the other hart leaves the
    #    deep stack.
7:  li      t2, {TAKEN}
    lr.d.aqrl t1, (t5)
    bne     t1, s0, 4b
    sc.d.aqrl t3, t2, (t5)
    bnez    t3, 7b
8:  ld      t1, (t5)
    beq     t1, t2, 8b
    fence   r, rw
    ld      s1, 8(t5)
    ld      s2, 16(t5)
    csrw    mie, zero
    j       boots

    # fn leave_machine(hart_id) -> !
    # Releases the hart that has taken the start. This hart waits as if it had arrived later.
    .globl leave_machine
leave_machine:
    mv      s0, a0
    la      t0, {OFFER}
    li      t1, {NO_HART}
    fence   rw, w
    sd      t1, (t0)
    j       waits

    .balign 4
park:
    csrw    mie, zero
    wfi
    j       park

    .section .data.arrivals, "aw"
    .balign 4
arrivals:
    .word 0

    # Trap frame: x1 to x31 at 8 * number, then mepc and mstatus; the head of the stack is above it.
    .equ FRAME, 272
    .equ FRAME_MEPC, 256
    .equ FRAME_MSTATUS, 264

    .section .text
    .balign 4
    .globl trap_entry
trap_entry:
    # In S and U mode mscratch holds the address below the pointer at the top of this hart's stack.
    # In machine mode it holds zero.
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
    # Clears MDT: a trap in machine mode must be reported, not become a double trap (Smdbltrp).
    li      t0, {DOUBLE_TRAP}
    csrc    mstatus, t0
    ld      tp, FRAME(sp)
    # sp: the frame of a trap, at the end of the stack.
handle:
    mv      a0, sp
    call    handle_trap
    addi    a1, sp, FRAME

    # sp: the frame; a1: end of the next trap's stack.
load_frame:
    csrw    mscratch, a1
    ld      t0, FRAME_MEPC(sp)
    csrw    mepc, t0
    ld      t0, FRAME_MSTATUS(sp)
    csrw    mstatus, t0
    .irp    n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld      x\n, 8*\n(sp)
    .endr
    ld      sp, 8*2(sp)
    mret

machine_trap:
    # The trap came from machine mode: an interrupt of interruptible work, or the firmware's fault.
    csrrw   sp, mscratch, sp
    addi    sp, sp, -FRAME
    sd      t0, 8*5(sp)
    csrr    t0, mcause
    bgez    t0, machine_fault_entry
    .irp    n, 1,6,7,10,11,12,13,14,15,16,17,28,29,30,31
    sd      x\n, 8*\n(sp)
    .endr
    csrr    t0, mepc
    sd      t0, FRAME_MEPC(sp)
    csrr    t0, mstatus
    sd      t0, FRAME_MSTATUS(sp)
    li      t0, {DOUBLE_TRAP}
    csrc    mstatus, t0
    csrr    a0, mcause
    call    machine_interrupt
    ld      t0, FRAME_MEPC(sp)
    csrw    mepc, t0
    ld      t0, FRAME_MSTATUS(sp)
    csrw    mstatus, t0
    .irp    n, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31
    ld      x\n, 8*\n(sp)
    .endr
    addi    sp, sp, FRAME
    mret

machine_fault_entry:
    csrr    a0, mcause
    csrr    a1, mepc
    csrr    a2, mtval
    call    machine_fault

    # fn enter_supervisor(hart_id, argument, stack_top) -> !
    # mepc and mstatus are set. Registers are cleared, so the OS sees none of the firmware's values.
    .globl enter_supervisor
enter_supervisor:
    csrw    mscratch, a2
    .irp    n, 1,2,3,4,5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    li      x\n, 0
    .endr
    mret

    # fn return_from_frame(frame, stack_top) -> !
    # Enters the OS as at the end of the frame's trap. The frame may lie anywhere: it is only read,
    # and nothing is written, since the caller's own stack may be there.
    .globl return_from_frame
return_from_frame:
    mv      sp, a0
    j       load_frame

    # fn handle_from_frame(frame, stack_top) -> !
    # Handles the trap of a frame below the place of a trap's frame, as if it came now. The frame may
    # overlap that place, so its last word moves first.
    .globl handle_from_frame
handle_from_frame:
    addi    a1, a1, -FRAME
    li      t0, FRAME
1:  addi    t0, t0, -8
    add     t1, a0, t0
    ld      t2, (t1)
    add     t1, a1, t0
    sd      t2, (t1)
    bnez    t0, 1b
    mv      sp, a1
    j       handle

    # fn restart_on_stack(stack_top) -> !
    # Drops the call chain and waits for the hart's start.
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
