# Linux's image header (Documentation/arch/riscv/boot-image-header.rst), which begins with the
# image's first instruction. a0 = hart id, a1 = device tree. The text offset is where `kernel.ld`
# links the image, from the start of memory.
    .section .text.entry, "ax"
    .globl _start
_start:
    .option push
    .option norvc
    j    1f
    nop
    .option pop
    .dword 0x200000       # text offset
    .dword __image_bytes
    .dword 0              # flags: little-endian
    .word 2, 0            # version 0.2
    .dword 0
    .ascii "RISCV\0\0\0"
    .ascii "RSC\x05"
    .word 0

1:  csrw sie, zero
    la   t0, fatal_vector
    csrw stvec, t0
    la   sp, __boot_stack_top
    la   t0, __bss_start
    la   t1, __bss_end
1:  bgeu t0, t1, 2f
    sd   zero, 0(t0)
    addi t0, t0, 8
    j    1b
2:  call {main}

    # Where HSM starts another hart. a0 = hart id, a1 = top of its stack.
    .globl worker_entry
worker_entry:
    csrw sie, zero
    la   t0, fatal_vector
    csrw stvec, t0
    mv   sp, a1
    call {work}

    # A trap that nobody waited for: say which, and end with a failure.
    .balign 4
    .globl fatal_vector
fatal_vector:
    la   sp, __fatal_stack_top
    csrr a0, scause
    csrr a1, sepc
    csrr a2, stval
    call {fatal}
