//! Results of the operations that `softcore-rv64` decodes and does not execute, as the unprivileged
//! specification's pseudocode has them, bit by bit.

use poorwill_isa::Operation;

/// The bits of a number, the lowest first.
fn bits(value: u64) -> [bool; 64] {
    core::array::from_fn(|number| value >> number & 1 != 0)
}

fn number(bits: impl IntoIterator<Item = bool>) -> u64 {
    let bits = bits.into_iter().enumerate();
    bits.fold(0, |value, (place, bit)| value | u64::from(bit) << place)
}

/// The low `width` bits with copies of the highest of them above.
fn signed(value: u64, width: usize) -> u64 {
    let low = bits(value);
    number((0..64).map(|place| low[place.min(width - 1)]))
}

/// A rotation of the low `width` bits to the right.
fn rotated(value: u64, width: usize, by: u64) -> u64 {
    let low = bits(value);
    let by = by as usize % width;
    number((0..width).map(|place| low[(place + by) % width]))
}

/// The number of zeros before the first one, of the low `width` bits.
fn zeros(value: u64, width: usize, from_top: bool) -> u64 {
    let low = bits(value);
    let place = |number: usize| if from_top { width - 1 - number } else { number };
    let first = (0..width).find(|number| low[place(*number)]);
    first.unwrap_or(width) as u64
}

fn ones(value: u64, width: usize) -> u64 {
    bits(value)[..width].iter().filter(|bit| **bit).count() as u64
}

/// Each byte's new value.
fn bytes(value: u64, new: impl Fn([u8; 8], usize) -> u8) -> u64 {
    let old: [u8; 8] = core::array::from_fn(|place| (value >> (8 * place)) as u8);
    (0..8)
        .map(|place| u64::from(new(old, place)) << (8 * place))
        .sum()
}

/// The upper half of a product: long multiplication of 32-bit digits, then a correction for each
/// negative factor.
fn upper_product(a: u64, b: u64, a_is_signed: bool, b_is_signed: bool) -> u64 {
    let (a_low, a_high) = (a & 0xffff_ffff, a >> 32);
    let (b_low, b_high) = (b & 0xffff_ffff, b >> 32);
    let middle = a_high * b_low + ((a_low * b_low) >> 32);
    let other = a_low * b_high + (middle & 0xffff_ffff);
    let upper = a_high * b_high + (middle >> 32) + (other >> 32);
    let correction = |is_signed: bool, value: u64, other: u64| match is_signed && value >> 63 != 0 {
        true => other,
        false => 0,
    };
    let upper = upper.wrapping_sub(correction(a_is_signed, a, b));
    upper.wrapping_sub(correction(b_is_signed, b, a))
}

fn is_less(a: u64, b: u64, is_signed: bool) -> bool {
    let flip = if is_signed { 1 << 63 } else { 0 };
    a ^ flip < b ^ flip
}

/// The result of an operation on `a` and `b`, the immediate or the second source; `None` for one
/// that the model executes.
pub(crate) fn result(operation: Operation, a: u64, b: u64) -> Option<u64> {
    let choose = |condition: bool| if condition { a } else { b };
    Some(match operation {
        Operation::Mulh => upper_product(a, b, true, true),
        Operation::Mulhsu => upper_product(a, b, true, false),
        Operation::Mulhu => upper_product(a, b, false, false),
        Operation::Subw => signed(a.wrapping_add((b ^ u64::MAX).wrapping_add(1)), 32),
        Operation::Andn => a & (b ^ u64::MAX),
        Operation::Orn => a | (b ^ u64::MAX),
        Operation::Xnor => a ^ b ^ u64::MAX,
        Operation::Clz => zeros(a, 64, true),
        Operation::Ctz => zeros(a, 64, false),
        Operation::Clzw => zeros(a, 32, true),
        Operation::Ctzw => zeros(a, 32, false),
        Operation::Cpop => ones(a, 64),
        Operation::Cpopw => ones(a, 32),
        Operation::Max => choose(!is_less(a, b, true)),
        Operation::Maxu => choose(!is_less(a, b, false)),
        Operation::Min => choose(is_less(a, b, true)),
        Operation::Minu => choose(is_less(a, b, false)),
        Operation::SextB => signed(a, 8),
        Operation::SextH => signed(a, 16),
        Operation::ZextH => a & 0xffff,
        Operation::Rol => rotated(a, 64, 64 - b % 64),
        Operation::Ror | Operation::Rori => rotated(a, 64, b % 64),
        Operation::Rolw => signed(rotated(a, 32, 32 - b % 32), 32),
        Operation::Rorw | Operation::Roriw => signed(rotated(a, 32, b % 32), 32),
        Operation::OrcB => bytes(a, |old, place| if old[place] == 0 { 0 } else { 0xff }),
        Operation::Rev8 => bytes(a, |old, place| old[7 - place]),
        _ => return None,
    })
}

/// The value that an AMO stores. Both values have the sign of their width.
pub(crate) fn combined(operation: Operation, memory: u64, register: u64) -> Option<u64> {
    let choose = |condition: bool| if condition { memory } else { register };
    Some(match operation {
        Operation::AmoswapW | Operation::AmoswapD => register,
        Operation::AmoaddW | Operation::AmoaddD => memory.wrapping_add(register),
        Operation::AmoxorW | Operation::AmoxorD => memory ^ register,
        Operation::AmoandW | Operation::AmoandD => memory & register,
        Operation::AmoorW | Operation::AmoorD => memory | register,
        Operation::AmominW | Operation::AmominD => choose(is_less(memory, register, true)),
        Operation::AmomaxW | Operation::AmomaxD => choose(!is_less(memory, register, true)),
        Operation::AmominuW => choose(is_less(low(memory), low(register), false)),
        Operation::AmomaxuW => choose(!is_less(low(memory), low(register), false)),
        Operation::AmominuD => choose(is_less(memory, register, false)),
        Operation::AmomaxuD => choose(!is_less(memory, register, false)),
        _ => return None,
    })
}

fn low(value: u64) -> u64 {
    value & 0xffff_ffff
}
