//! Results of integer operations (unprivileged specification: RV64I, M, Zba, Zbb, Zbs, Zicond).

use poorwill_isa::Operation;

#[inline(always)]
fn word(value: u64) -> u64 {
    value as u32 as i32 as u64
}

#[inline(always)]
fn signed(value: u64) -> i64 {
    value.cast_signed()
}

#[inline(always)]
fn is(condition: bool) -> u64 {
    u64::from(condition)
}

/// Returns whether [`frequent`] or [`rare`] has results of the operation, by its opcode (unprivileged
/// specification, chapter 35).
pub(crate) const fn is_calculation(operation: Operation) -> bool {
    is_of_calculation(operation.encoding())
}

/// As [`is_calculation`], by an encoding.
pub(crate) const fn is_of_calculation(bits: u32) -> bool {
    const OP_IMM: u32 = 0x13;
    const OP_IMM_32: u32 = 0x1b;
    const OP: u32 = 0x33;
    const LUI: u32 = 0x37;
    const OP_32: u32 = 0x3b;
    matches!(bits & 0x7f, OP_IMM | OP_IMM_32 | OP | LUI | OP_32)
}

/// As [`frequent`], for the other operations.
#[inline(never)]
pub(super) fn rare(operation: Operation, a: u64, b: u64) -> Option<u64> {
    counted(operation, a).or_else(|| divided(operation, a, b))
}

/// The result of a frequent operation on two values; the second is a register or the immediate. `None`
/// for other operations.
#[inline(always)]
pub(super) fn frequent(operation: Operation, a: u64, b: u64) -> Option<u64> {
    let sum = |a: u64| a.wrapping_add(b);
    Some(match operation {
        Operation::Lui => b,
        Operation::Add | Operation::Addi => sum(a),
        Operation::Sub => a.wrapping_sub(b),
        Operation::Addw | Operation::Addiw => word(sum(a)),
        Operation::Subw => word(a.wrapping_sub(b)),
        Operation::And | Operation::Andi => a & b,
        Operation::Or | Operation::Ori => a | b,
        Operation::Xor | Operation::Xori => a ^ b,
        Operation::Slt | Operation::Slti => is(signed(a) < signed(b)),
        Operation::Sltu | Operation::Sltiu => is(a < b),
        Operation::Sh1add => sum(a << 1),
        Operation::Sh2add => sum(a << 2),
        Operation::Sh3add => sum(a << 3),
        Operation::AddUw => sum(u64::from(a as u32)),
        Operation::Sh1addUw => sum(u64::from(a as u32) << 1),
        Operation::Sh2addUw => sum(u64::from(a as u32) << 2),
        Operation::Sh3addUw => sum(u64::from(a as u32) << 3),
        Operation::Andn => a & !b,
        Operation::Orn => a | !b,
        Operation::Xnor => !(a ^ b),
        Operation::Min => signed(a).min(signed(b)).cast_unsigned(),
        Operation::Max => signed(a).max(signed(b)).cast_unsigned(),
        Operation::Minu => a.min(b),
        Operation::Maxu => a.max(b),
        Operation::CzeroEqz => {
            if b == 0 {
                0
            } else {
                a
            }
        }
        Operation::CzeroNez => {
            if b != 0 {
                0
            } else {
                a
            }
        }
        Operation::Mul => a.wrapping_mul(b),
        Operation::Mulw => word(a.wrapping_mul(b)),
        _ => return shifted(operation, a, b),
    })
}

/// Shifts, rotations, and single bits.
#[inline(always)]
fn shifted(operation: Operation, a: u64, b: u64) -> Option<u64> {
    let by = || (b & 63) as u32;
    let by_word = || (b & 31) as u32;
    let low = || a as u32;
    let bit = || 1_u64 << by();
    Some(match operation {
        Operation::Sll | Operation::Slli => a << by(),
        Operation::Srl | Operation::Srli => a >> by(),
        Operation::Sra | Operation::Srai => (signed(a) >> by()).cast_unsigned(),
        Operation::Sllw | Operation::Slliw => word((low() << by_word()).into()),
        Operation::Srlw | Operation::Srliw => word((low() >> by_word()).into()),
        Operation::Sraw | Operation::Sraiw => {
            i64::from(low().cast_signed() >> by_word()).cast_unsigned()
        }
        Operation::SlliUw => u64::from(low()) << by(),
        Operation::Rol => a.rotate_left(by()),
        Operation::Ror | Operation::Rori => a.rotate_right(by()),
        Operation::Rolw => word(low().rotate_left(by_word()).into()),
        Operation::Rorw | Operation::Roriw => word(low().rotate_right(by_word()).into()),
        Operation::Bclr | Operation::Bclri => a & !bit(),
        Operation::Bset | Operation::Bseti => a | bit(),
        Operation::Binv | Operation::Binvi => a ^ bit(),
        Operation::Bext | Operation::Bexti => a >> by() & 1,
        _ => return None,
    })
}

/// Operations on one value.
fn counted(operation: Operation, a: u64) -> Option<u64> {
    let low = || a as u32;
    Some(match operation {
        Operation::Clz => a.leading_zeros().into(),
        Operation::Ctz => a.trailing_zeros().into(),
        Operation::Cpop => a.count_ones().into(),
        Operation::Clzw => low().leading_zeros().into(),
        Operation::Ctzw => low().trailing_zeros().into(),
        Operation::Cpopw => low().count_ones().into(),
        Operation::SextB => i64::from(a as i8).cast_unsigned(),
        Operation::SextH => i64::from(a as i16).cast_unsigned(),
        Operation::ZextH => u64::from(a as u16),
        Operation::Rev8 => a.swap_bytes(),
        Operation::OrcB => {
            let bytes = a.to_le_bytes();
            u64::from_le_bytes(bytes.map(|byte| if byte == 0 { 0 } else { 0xff }))
        }
        _ => return None,
    })
}

/// Multiplication and division. A division by zero has defined results (13.2).
fn divided(operation: Operation, a: u64, b: u64) -> Option<u64> {
    let wide = |a: i128, b: i128| (a.wrapping_mul(b) >> 64) as u64;
    let (signed_a, signed_b) = (signed(a), signed(b));
    let (low_a, low_b) = (a as u32, b as u32);
    let (word_a, word_b) = (low_a.cast_signed(), low_b.cast_signed());
    Some(match operation {
        Operation::Mulh => wide(signed_a.into(), signed_b.into()),
        Operation::Mulhsu => wide(signed_a.into(), b.into()),
        Operation::Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Operation::Div if b == 0 => u64::MAX,
        Operation::Div => signed_a.wrapping_div(signed_b).cast_unsigned(),
        Operation::Divu => a.checked_div(b).unwrap_or(u64::MAX),
        Operation::Rem if b == 0 => a,
        Operation::Rem => signed_a.wrapping_rem(signed_b).cast_unsigned(),
        Operation::Remu => a.checked_rem(b).unwrap_or(a),
        Operation::Divw if low_b == 0 => u64::MAX,
        Operation::Divw => i64::from(word_a.wrapping_div(word_b)).cast_unsigned(),
        Operation::Divuw => word(low_a.checked_div(low_b).unwrap_or(u32::MAX).into()),
        Operation::Remw if low_b == 0 => word(a),
        Operation::Remw => i64::from(word_a.wrapping_rem(word_b)).cast_unsigned(),
        Operation::Remuw => word(low_a.checked_rem(low_b).unwrap_or(low_a).into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use poorwill_isa::FORMS;

    use super::*;

    #[test]
    fn the_opcode_tells_which_operations_have_results() {
        for form in FORMS {
            let operation = form.operation;
            let value = frequent(operation, 0, 0).or_else(|| rare(operation, 0, 0));
            let has_result = value.is_some();
            assert_eq!(is_calculation(operation), has_result, "{operation:?}");
        }
    }
}
