//! The Sail model of the specification (`softcore-rv64`), as a decoder of 32-bit instructions.

use softcore_rv64::raw::{Config, cbop_zicbom, csrop, mul_op, word_width};
use softcore_rv64::{Core, ast, config, new_core};

const MSTATUS: u64 = 0x300;
const FS_INITIAL: u64 = 1 << 13;

fn configuration() -> Config {
    let mut all = config::U74;
    let extensions = &mut all.extensions;
    extensions.Svinval.supported = true;
    extensions.Zbs.supported = true;
    extensions.Zicbom.supported = true;
    extensions.Zicboz.supported = true;
    extensions.Zicond.supported = true;
    extensions.Zifencei.supported = true;
    all
}

/// A core with the extensions that the decoder has, whose floating-point unit is on.
pub(crate) fn core() -> Core {
    let mut core = new_core(configuration());
    core.reset();
    core.set_csr(MSTATUS, FS_INITIAL);
    core
}

fn suffix(width: word_width) -> &'static str {
    match width {
        word_width::BYTE => "b",
        word_width::HALF => "h",
        word_width::WORD => "w",
        word_width::DOUBLE => "d",
    }
}

/// The mnemonic of an instruction; `None` for an illegal one.
pub(crate) fn name_of(decoded: &ast) -> Option<String> {
    let unsigned = |is_unsigned: bool| if is_unsigned { "u" } else { "" };
    let by_sign = |is_signed: bool| unsigned(!is_signed);
    Some(match decoded {
        ast::ILLEGAL(_) => return None,
        ast::LOAD((_, _, _, is_unsigned, width, ..)) => {
            format!("l{}{}", suffix(*width), unsigned(*is_unsigned))
        }
        ast::STORE((_, _, _, width, ..)) => format!("s{}", suffix(*width)),
        ast::LOAD_FP((.., width)) => format!("fl{}", suffix(*width)),
        ast::STORE_FP((.., width)) => format!("fs{}", suffix(*width)),
        ast::LOADRES((.., width, _)) => format!("lr.{}", suffix(*width)),
        ast::STORECON((.., width, _)) => format!("sc.{}", suffix(*width)),
        ast::AMO((operation, .., width, _)) => {
            let name = format!("{operation:?}").to_lowercase();
            format!("{name}.{}", suffix(*width))
        }
        ast::MUL((.., operation)) => multiplication(operation).to_owned(),
        ast::DIV((.., is_signed)) => format!("div{}", by_sign(*is_signed)),
        ast::REM((.., is_signed)) => format!("rem{}", by_sign(*is_signed)),
        ast::DIVW((.., is_signed)) => format!("div{}w", by_sign(*is_signed)),
        ast::REMW((.., is_signed)) => format!("rem{}w", by_sign(*is_signed)),
        ast::CSRReg((.., operation)) => csr(*operation).to_owned(),
        ast::CSRImm((.., operation)) => format!("{}i", csr(*operation)),
        ast::ZICBOM((operation, _)) => cache_block(*operation).to_owned(),
        ast::ZICBOZ(_) => "cbo.zero".to_owned(),
        ast::FENCE_TSO(_) | ast::FENCE_RESERVED(_) => "fence".to_owned(),
        ast::FENCEI(()) | ast::FENCEI_RESERVED(_) => "fence.i".to_owned(),
        // Their words name the class of the encoding, then its operation.
        other => return Some(last_name(&format!("{other:?}"))),
    })
}

fn multiplication(operation: &mul_op) -> &'static str {
    match (operation.high, operation.signed_rs1, operation.signed_rs2) {
        (false, ..) => "mul",
        (true, true, true) => "mulh",
        (true, true, false) => "mulhsu",
        (true, ..) => "mulhu",
    }
}

fn csr(operation: csrop) -> &'static str {
    match operation {
        csrop::CSRRW => "csrrw",
        csrop::CSRRS => "csrrs",
        csrop::CSRRC => "csrrc",
    }
}

fn cache_block(operation: cbop_zicbom) -> &'static str {
    match operation {
        cbop_zicbom::CBO_CLEAN => "cbo.clean",
        cbop_zicbom::CBO_FLUSH => "cbo.flush",
        cbop_zicbom::CBO_INVAL => "cbo.inval",
    }
}

/// The last word in capitals, without signs between its letters: it is the operation. Classes with
/// one operation have their own name alone.
fn last_name(debug: &str) -> String {
    let is_part =
        |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let words = debug.split(|letter| !is_part(letter));
    let is_name =
        |word: &&str| word.len() > 1 && word.starts_with(|first: char| first.is_ascii_uppercase());
    let rounding = ["RM_RNE", "RM_RTZ", "RM_RDN", "RM_RUP", "RM_RMM", "RM_DYN"];
    let mut names = words.filter(|word| is_name(word) && !rounding.contains(word));
    names
        .next_back()
        .unwrap_or_default()
        .to_lowercase()
        .replace('_', "")
}

/// The numbers in an instruction: of its registers and of its immediate's bits.
pub(crate) fn numbers(decoded: &ast) -> Vec<u32> {
    let debug = format!("{decoded:?}");
    let parts = debug.split("bits: ").skip(1);
    let digits = |part: &str| {
        part.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    parts
        .map(|part| digits(part).parse().expect("a number"))
        .collect()
}
