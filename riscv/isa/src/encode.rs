//! Instructions of the specification's formats, from their fields. Values are cut to their fields.

/// A register-register instruction.
#[must_use]
pub const fn r(value: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    value | (rd & 31) << 7 | (rs1 & 31) << 15 | (rs2 & 31) << 20
}

/// A register-immediate instruction, a load, `jalr` or a shift.
#[must_use]
pub const fn i(value: u32, rd: u32, rs1: u32, immediate: i32) -> u32 {
    r(value, rd, rs1, 0) | immediate.cast_unsigned() << 20
}

/// A store.
#[must_use]
pub const fn s(value: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let offset = offset.cast_unsigned();
    r(value, offset, rs1, rs2) | offset >> 5 << 25
}

/// A branch; the offset is even.
#[must_use]
pub const fn b(value: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let offset = offset.cast_unsigned();
    r(value, offset & 0x1e | offset >> 11 & 1, rs1, rs2)
        | (offset >> 5 & 0x3f) << 25
        | (offset >> 12 & 1) << 31
}

/// `lui` or `auipc`; the low twelve bits of the immediate are ignored.
#[must_use]
pub const fn u(value: u32, rd: u32, immediate: i32) -> u32 {
    r(value, rd, 0, 0) | immediate.cast_unsigned() & !0xfff
}

/// `jal`; the offset is even.
#[must_use]
pub const fn j(value: u32, rd: u32, offset: i32) -> u32 {
    let offset = offset.cast_unsigned();
    r(value, rd, 0, 0)
        | offset & 0xff << 12
        | (offset >> 11 & 1) << 20
        | (offset >> 1 & 0x3ff) << 21
        | (offset >> 20 & 1) << 31
}
