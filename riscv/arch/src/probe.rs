//! Instructions that may trap.

/// Carries out one instruction, with a register `{value}` that goes in with the given
/// value, and further operands. Gives what the register holds then, and whether the
/// instruction did not trap.
///
/// `mtvec` points behind it meanwhile, so a trap lands there, and the next one is no
/// double trap; interrupts, which would land there too, are off. A trap within machine mode
/// changes only `mepc`, `mcause`, `mtval` and `mstatus`, and the OS's values of these
/// are kept in its trap frame.
///
/// # Safety
///
/// The instruction does nothing that Rust's rules, or what machine mode relies on, do not
/// allow.
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
