//! The table of 32-bit encodings, ascending by opcode.

use crate::form::{
    Format, amo, cache_block, exact, fence, funct3, funct6, funct7, funct12, fused, opcode,
    reserve, rounded, rounded_one,
};

/// An encoding.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The operation.
    pub operation: Operation,
    /// Name in the specification.
    pub mnemonic: &'static str,
    /// The fixed bits.
    pub mask: u32,
    /// Their values.
    pub value: u32,
    /// Format of the operands.
    pub format: Format,
}

macro_rules! forms {
    ($($operation:ident $mnemonic:literal $fixed:ident($($field:literal),*) $format:ident;)*) => {
        /// An operation (unprivileged specification, chapter 35 and the extensions' own).
        #[allow(missing_docs, reason = "the specification's own names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Operation {
            $($operation,)*
        }

        /// All encodings. The first one that matches decides: `pause` is an encoding of `fence`.
        pub static FORMS: &[Form] = {
            const ALL: &[Form] = &[$({
                let (mask, value) = $fixed($($field),*);
                Form {
                    operation: Operation::$operation,
                    mnemonic: $mnemonic,
                    mask,
                    value,
                    format: Format::$format,
                }
            },)*];
            ALL
        };

        /// Number of encodings.
        pub(crate) const COUNT: usize = [$($mnemonic,)*].len();
    };
}

forms! {
    Lb "lb" funct3(0x03, 0) I;
    Lh "lh" funct3(0x03, 1) I;
    Lw "lw" funct3(0x03, 2) I;
    Ld "ld" funct3(0x03, 3) I;
    Lbu "lbu" funct3(0x03, 4) I;
    Lhu "lhu" funct3(0x03, 5) I;
    Lwu "lwu" funct3(0x03, 6) I;
    Flw "flw" funct3(0x07, 2) I;
    Fld "fld" funct3(0x07, 3) I;
    Pause "pause" exact(0x0100_000f) R;
    Fence "fence" funct3(0x0f, 0) I;
    FenceI "fence.i" funct3(0x0f, 1) I;
    CboInval "cbo.inval" cache_block(0) R;
    CboClean "cbo.clean" cache_block(1) R;
    CboFlush "cbo.flush" cache_block(2) R;
    CboZero "cbo.zero" cache_block(4) R;
    Addi "addi" funct3(0x13, 0) I;
    Slli "slli" funct6(0x13, 1, 0) Shift;
    Bclri "bclri" funct6(0x13, 1, 0x12) Shift;
    Binvi "binvi" funct6(0x13, 1, 0x1a) Shift;
    Bseti "bseti" funct6(0x13, 1, 0x0a) Shift;
    Clz "clz" funct12(0x13, 1, 0x600) R;
    Ctz "ctz" funct12(0x13, 1, 0x601) R;
    Cpop "cpop" funct12(0x13, 1, 0x602) R;
    SextB "sext.b" funct12(0x13, 1, 0x604) R;
    SextH "sext.h" funct12(0x13, 1, 0x605) R;
    Slti "slti" funct3(0x13, 2) I;
    Sltiu "sltiu" funct3(0x13, 3) I;
    Xori "xori" funct3(0x13, 4) I;
    Srli "srli" funct6(0x13, 5, 0) Shift;
    Srai "srai" funct6(0x13, 5, 0x10) Shift;
    Bexti "bexti" funct6(0x13, 5, 0x12) Shift;
    Rori "rori" funct6(0x13, 5, 0x18) Shift;
    OrcB "orc.b" funct12(0x13, 5, 0x287) R;
    Rev8 "rev8" funct12(0x13, 5, 0x6b8) R;
    Ori "ori" funct3(0x13, 6) I;
    Andi "andi" funct3(0x13, 7) I;
    Auipc "auipc" opcode(0x17) U;
    Addiw "addiw" funct3(0x1b, 0) I;
    Slliw "slliw" funct7(0x1b, 1, 0) Shift;
    SlliUw "slli.uw" funct6(0x1b, 1, 0x02) Shift;
    Clzw "clzw" funct12(0x1b, 1, 0x600) R;
    Ctzw "ctzw" funct12(0x1b, 1, 0x601) R;
    Cpopw "cpopw" funct12(0x1b, 1, 0x602) R;
    Srliw "srliw" funct7(0x1b, 5, 0) Shift;
    Sraiw "sraiw" funct7(0x1b, 5, 0x20) Shift;
    Roriw "roriw" funct7(0x1b, 5, 0x30) Shift;
    Sb "sb" funct3(0x23, 0) S;
    Sh "sh" funct3(0x23, 1) S;
    Sw "sw" funct3(0x23, 2) S;
    Sd "sd" funct3(0x23, 3) S;
    Fsw "fsw" funct3(0x27, 2) S;
    Fsd "fsd" funct3(0x27, 3) S;
    LrW "lr.w" reserve(2) R;
    ScW "sc.w" amo(2, 3) R;
    AmoswapW "amoswap.w" amo(2, 0x1) R;
    AmoaddW "amoadd.w" amo(2, 0x0) R;
    AmoxorW "amoxor.w" amo(2, 0x4) R;
    AmoandW "amoand.w" amo(2, 0xc) R;
    AmoorW "amoor.w" amo(2, 0x8) R;
    AmominW "amomin.w" amo(2, 0x10) R;
    AmomaxW "amomax.w" amo(2, 0x14) R;
    AmominuW "amominu.w" amo(2, 0x18) R;
    AmomaxuW "amomaxu.w" amo(2, 0x1c) R;
    AmocasW "amocas.w" amo(2, 0x5) R;
    LrD "lr.d" reserve(3) R;
    ScD "sc.d" amo(3, 3) R;
    AmoswapD "amoswap.d" amo(3, 0x1) R;
    AmoaddD "amoadd.d" amo(3, 0x0) R;
    AmoxorD "amoxor.d" amo(3, 0x4) R;
    AmoandD "amoand.d" amo(3, 0xc) R;
    AmoorD "amoor.d" amo(3, 0x8) R;
    AmominD "amomin.d" amo(3, 0x10) R;
    AmomaxD "amomax.d" amo(3, 0x14) R;
    AmominuD "amominu.d" amo(3, 0x18) R;
    AmomaxuD "amomaxu.d" amo(3, 0x1c) R;
    AmocasD "amocas.d" amo(3, 0x5) R;
    Add "add" funct7(0x33, 0, 0) R;
    Sll "sll" funct7(0x33, 1, 0) R;
    Slt "slt" funct7(0x33, 2, 0) R;
    Sltu "sltu" funct7(0x33, 3, 0) R;
    Xor "xor" funct7(0x33, 4, 0) R;
    Srl "srl" funct7(0x33, 5, 0) R;
    Or "or" funct7(0x33, 6, 0) R;
    And "and" funct7(0x33, 7, 0) R;
    Sub "sub" funct7(0x33, 0, 0x20) R;
    Sra "sra" funct7(0x33, 5, 0x20) R;
    Mul "mul" funct7(0x33, 0, 1) R;
    Mulh "mulh" funct7(0x33, 1, 1) R;
    Mulhsu "mulhsu" funct7(0x33, 2, 1) R;
    Mulhu "mulhu" funct7(0x33, 3, 1) R;
    Div "div" funct7(0x33, 4, 1) R;
    Divu "divu" funct7(0x33, 5, 1) R;
    Rem "rem" funct7(0x33, 6, 1) R;
    Remu "remu" funct7(0x33, 7, 1) R;
    Sh1add "sh1add" funct7(0x33, 2, 0x10) R;
    Sh2add "sh2add" funct7(0x33, 4, 0x10) R;
    Sh3add "sh3add" funct7(0x33, 6, 0x10) R;
    Andn "andn" funct7(0x33, 7, 0x20) R;
    Orn "orn" funct7(0x33, 6, 0x20) R;
    Xnor "xnor" funct7(0x33, 4, 0x20) R;
    Min "min" funct7(0x33, 4, 0x05) R;
    Minu "minu" funct7(0x33, 5, 0x05) R;
    Max "max" funct7(0x33, 6, 0x05) R;
    Maxu "maxu" funct7(0x33, 7, 0x05) R;
    Rol "rol" funct7(0x33, 1, 0x30) R;
    Ror "ror" funct7(0x33, 5, 0x30) R;
    Bclr "bclr" funct7(0x33, 1, 0x24) R;
    Bext "bext" funct7(0x33, 5, 0x24) R;
    Binv "binv" funct7(0x33, 1, 0x34) R;
    Bset "bset" funct7(0x33, 1, 0x14) R;
    CzeroEqz "czero.eqz" funct7(0x33, 5, 0x07) R;
    CzeroNez "czero.nez" funct7(0x33, 7, 0x07) R;
    Lui "lui" opcode(0x37) U;
    Addw "addw" funct7(0x3b, 0, 0x00) R;
    Subw "subw" funct7(0x3b, 0, 0x20) R;
    Sllw "sllw" funct7(0x3b, 1, 0x00) R;
    Srlw "srlw" funct7(0x3b, 5, 0x00) R;
    Sraw "sraw" funct7(0x3b, 5, 0x20) R;
    Mulw "mulw" funct7(0x3b, 0, 0x01) R;
    Divw "divw" funct7(0x3b, 4, 0x01) R;
    Divuw "divuw" funct7(0x3b, 5, 0x01) R;
    Remw "remw" funct7(0x3b, 6, 0x01) R;
    Remuw "remuw" funct7(0x3b, 7, 0x01) R;
    AddUw "add.uw" funct7(0x3b, 0, 0x04) R;
    Sh1addUw "sh1add.uw" funct7(0x3b, 2, 0x10) R;
    Sh2addUw "sh2add.uw" funct7(0x3b, 4, 0x10) R;
    Sh3addUw "sh3add.uw" funct7(0x3b, 6, 0x10) R;
    Rolw "rolw" funct7(0x3b, 1, 0x30) R;
    Rorw "rorw" funct7(0x3b, 5, 0x30) R;
    ZextH "zext.h" funct12(0x3b, 4, 0x080) R;
    FmaddS "fmadd.s" fused(0x43, 0) R;
    FmaddD "fmadd.d" fused(0x43, 1) R;
    FmsubS "fmsub.s" fused(0x47, 0) R;
    FmsubD "fmsub.d" fused(0x47, 1) R;
    FnmsubS "fnmsub.s" fused(0x4b, 0) R;
    FnmsubD "fnmsub.d" fused(0x4b, 1) R;
    FnmaddS "fnmadd.s" fused(0x4f, 0) R;
    FnmaddD "fnmadd.d" fused(0x4f, 1) R;
    FaddS "fadd.s" rounded(0x00) R;
    FsubS "fsub.s" rounded(0x04) R;
    FmulS "fmul.s" rounded(0x08) R;
    FdivS "fdiv.s" rounded(0x0c) R;
    FsqrtS "fsqrt.s" rounded_one(0x2c, 0) R;
    FsgnjS "fsgnj.s" funct7(0x53, 0, 0x10) R;
    FsgnjnS "fsgnjn.s" funct7(0x53, 1, 0x10) R;
    FsgnjxS "fsgnjx.s" funct7(0x53, 2, 0x10) R;
    FminS "fmin.s" funct7(0x53, 0, 0x14) R;
    FmaxS "fmax.s" funct7(0x53, 1, 0x14) R;
    FleS "fle.s" funct7(0x53, 0, 0x50) R;
    FltS "flt.s" funct7(0x53, 1, 0x50) R;
    FeqS "feq.s" funct7(0x53, 2, 0x50) R;
    FcvtWS "fcvt.w.s" rounded_one(0x60, 0) R;
    FcvtWuS "fcvt.wu.s" rounded_one(0x60, 1) R;
    FcvtLS "fcvt.l.s" rounded_one(0x60, 2) R;
    FcvtLuS "fcvt.lu.s" rounded_one(0x60, 3) R;
    FcvtSW "fcvt.s.w" rounded_one(0x68, 0) R;
    FcvtSWu "fcvt.s.wu" rounded_one(0x68, 1) R;
    FcvtSL "fcvt.s.l" rounded_one(0x68, 2) R;
    FcvtSLu "fcvt.s.lu" rounded_one(0x68, 3) R;
    FclassS "fclass.s" funct12(0x53, 1, 0xe00) R;
    FmvXW "fmv.x.w" funct12(0x53, 0, 0xe00) R;
    FmvWX "fmv.w.x" funct12(0x53, 0, 0xf00) R;
    FaddD "fadd.d" rounded(0x01) R;
    FsubD "fsub.d" rounded(0x05) R;
    FmulD "fmul.d" rounded(0x09) R;
    FdivD "fdiv.d" rounded(0x0d) R;
    FsqrtD "fsqrt.d" rounded_one(0x2d, 0) R;
    FsgnjD "fsgnj.d" funct7(0x53, 0, 0x11) R;
    FsgnjnD "fsgnjn.d" funct7(0x53, 1, 0x11) R;
    FsgnjxD "fsgnjx.d" funct7(0x53, 2, 0x11) R;
    FminD "fmin.d" funct7(0x53, 0, 0x15) R;
    FmaxD "fmax.d" funct7(0x53, 1, 0x15) R;
    FleD "fle.d" funct7(0x53, 0, 0x51) R;
    FltD "flt.d" funct7(0x53, 1, 0x51) R;
    FeqD "feq.d" funct7(0x53, 2, 0x51) R;
    FcvtWD "fcvt.w.d" rounded_one(0x61, 0) R;
    FcvtWuD "fcvt.wu.d" rounded_one(0x61, 1) R;
    FcvtLD "fcvt.l.d" rounded_one(0x61, 2) R;
    FcvtLuD "fcvt.lu.d" rounded_one(0x61, 3) R;
    FcvtDW "fcvt.d.w" rounded_one(0x69, 0) R;
    FcvtDWu "fcvt.d.wu" rounded_one(0x69, 1) R;
    FcvtDL "fcvt.d.l" rounded_one(0x69, 2) R;
    FcvtDLu "fcvt.d.lu" rounded_one(0x69, 3) R;
    FclassD "fclass.d" funct12(0x53, 1, 0xe20) R;
    FmvXD "fmv.x.d" funct12(0x53, 0, 0xe20) R;
    FmvDX "fmv.d.x" funct12(0x53, 0, 0xf20) R;
    FcvtSD "fcvt.s.d" rounded_one(0x20, 1) R;
    FcvtDS "fcvt.d.s" rounded_one(0x21, 0) R;
    Beq "beq" funct3(0x63, 0) B;
    Bne "bne" funct3(0x63, 1) B;
    Blt "blt" funct3(0x63, 4) B;
    Bge "bge" funct3(0x63, 5) B;
    Bltu "bltu" funct3(0x63, 6) B;
    Bgeu "bgeu" funct3(0x63, 7) B;
    Jalr "jalr" funct3(0x67, 0) I;
    Jal "jal" opcode(0x6f) J;
    Ecall "ecall" exact(0x0000_0073) R;
    Ebreak "ebreak" exact(0x0010_0073) R;
    Sret "sret" exact(0x1020_0073) R;
    Mret "mret" exact(0x3020_0073) R;
    Wfi "wfi" exact(0x1050_0073) R;
    WrsNto "wrs.nto" exact(0x00d0_0073) R;
    WrsSto "wrs.sto" exact(0x01d0_0073) R;
    SfenceWInval "sfence.w.inval" exact(0x1800_0073) R;
    SfenceInvalIr "sfence.inval.ir" exact(0x1810_0073) R;
    SfenceVma "sfence.vma" fence(0x09) R;
    SinvalVma "sinval.vma" fence(0x0b) R;
    Csrrw "csrrw" funct3(0x73, 1) Csr;
    Csrrs "csrrs" funct3(0x73, 2) Csr;
    Csrrc "csrrc" funct3(0x73, 3) Csr;
    Csrrwi "csrrwi" funct3(0x73, 5) Csr;
    Csrrsi "csrrsi" funct3(0x73, 6) Csr;
    Csrrci "csrrci" funct3(0x73, 7) Csr;
}

impl Operation {
    /// Format of the operands.
    #[must_use]
    pub const fn format(self) -> Format {
        FORMS[self as usize].format
    }

    /// The fixed bits of the encoding.
    #[must_use]
    pub const fn encoding(self) -> u32 {
        FORMS[self as usize].value
    }
}
