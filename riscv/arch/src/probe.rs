//! Instructions that may trap.

/// Carries out one instruction. Register `{value}` holds the given value before it; more operands
/// may follow. Returns the value of the register after it, and whether the instruction did not
/// trap.
///
/// During it `mtvec` points past the instruction, so a trap lands there. The code there clears MDT,
/// so the next trap is no double trap. Interrupts, which would land there too, are off. A trap within
/// machine mode changes only `mepc`, `mcause`, `mtval` and `mstatus`; the trap frame holds the OS's
/// values of these.
///
/// # Safety
///
/// The instruction breaks neither Rust's rules nor machine mode's assumptions.
macro_rules! probe {
    ($instruction:expr, $value:expr $(, $($operand:tt)+)?) => {{
        let mut value: u64 = $value;
        let there: usize;
        core::arch::asm!(
            "csrrci {enabled}, mstatus, {interrupts}",
            "la     {old}, 2f",
            "csrrw  {old}, mtvec, {old}",
            "li     {there}, 0",
            $instruction,
            "li     {there}, 1",
            ".balign 4",
            "2: csrw mtvec, {old}",
            "csrc   mstatus, {double_trap}",
            "andi   {enabled}, {enabled}, {interrupts}",
            "csrs   mstatus, {enabled}",
            old = out(reg) _,
            there = out(reg) there,
            value = inout(reg) value,
            enabled = out(reg) _,
            interrupts = const $crate::csr::status::MIE,
            double_trap = in(reg) $crate::csr::status::MDT,
            $($($operand)+,)?
            options(nostack),
        );
        (value, there != 0)
    }};
}

pub(crate) use probe;
