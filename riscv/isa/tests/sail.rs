//! The Sail model (`softcore-rv64`) as an oracle: each form is the instruction that its name says.

use std::collections::BTreeSet;

use poorwill_isa::FORMS;
use softcore_rv64::raw::Config;
use softcore_rv64::{Core, config, new_core};

const DRAWS: usize = 50;

const MSTATUS: u64 = 0x300;
const FS_INITIAL: u64 = 1 << 13;

/// The model's names are other ones. `raki` knows these.
const NAMED_OTHERWISE: &str = "amoadd.d amoadd.w amoand.d amoand.w amomax.d amomax.w amomaxu.d \
    amomaxu.w amomin.d amomin.w amominu.d amominu.w amoor.d amoor.w amoswap.d amoswap.w amoxor.d \
    amoxor.w cbo.zero csrrci csrrsi csrrwi divu divuw lb lbu ld lh lhu lr.d lr.w lw lwu mulh \
    mulhsu mulhu remu remuw sb sc.d sc.w sd sh sw";

/// The model does not know these, nor does `raki`.
const UNKNOWN: &str = "amocas.d amocas.w pause wrs.nto wrs.sto";

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

/// A core whose floating-point unit is on.
fn core() -> Core {
    let mut core = new_core(configuration());
    core.reset();
    core.set_csr(MSTATUS, FS_INITIAL);
    core
}

#[test]
fn sail_reads_the_same() {
    let mut core = core();
    let mut others = BTreeSet::new();
    for form in FORMS {
        let names = match form.mnemonic {
            "flw" => ["LOADFP", "WORD"].map(str::to_owned),
            "fld" => ["LOADFP", "DOUBLE"].map(str::to_owned),
            "fsw" => ["STOREFP", "WORD"].map(str::to_owned),
            "fsd" => ["STOREFP", "DOUBLE"].map(str::to_owned),
            other => [other.to_uppercase().replace('.', ""), String::new()],
        };
        for _ in 0..DRAWS {
            let bits = fastrand::u32(..) & !form.mask | form.value;
            // Two rounding modes are reserved.
            let bits = match bits & 0x7f {
                0x43..=0x53 => bits & !(5 << 12) | form.value,
                _ => bits,
            };
            let decoded = format!("{:?}", core.decode_instr(bits)).replace('_', "");
            if !names.iter().all(|name| decoded.contains(name)) {
                others.insert(form.mnemonic);
            }
        }
    }
    let known = [NAMED_OTHERWISE, UNKNOWN].map(str::split_whitespace);
    assert_eq!(others, known.into_iter().flatten().collect());
}
