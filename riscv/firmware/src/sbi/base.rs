//! BASE (SBI 3.0, chapter 4).

use poorwill_arch::csr;
use poorwill_domain::Domain;
use sbi_spec::base::{
    GET_MARCHID, GET_MIMPID, GET_MVENDORID, GET_SBI_IMPL_ID, GET_SBI_IMPL_VERSION,
    GET_SBI_SPEC_VERSION, PROBE_EXTENSION,
};
use sbi_spec::binary::SbiRet;
use sbi_spec::{base as spec_base, dbcn, hsm as spec_hsm, rfnc, spi, srst, susp, time};

use super::call::Call;
use super::{legacy, reset};

/// SBI 3.0.
const SPECIFICATION: usize = 3 << 24;

/// Poorwill has no implementation ID in the specification's list. This one says "PWIL" and is far
/// from the assigned numbers.
const IMPLEMENTATION: usize = u32::from_be_bytes(*b"PWIL") as usize;

/// Major version in the upper half, minor in the lower.
const VERSION: usize =
    version(env!("CARGO_PKG_VERSION_MAJOR")) << 16 | version(env!("CARGO_PKG_VERSION_MINOR"));

const fn version(digits: &str) -> usize {
    match usize::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version is a number"),
    }
}

pub(super) fn call(call: Call) -> SbiRet {
    let [argument, ..] = call.arguments;
    SbiRet::success(match call.function {
        GET_SBI_SPEC_VERSION => SPECIFICATION,
        GET_SBI_IMPL_ID => IMPLEMENTATION,
        GET_SBI_IMPL_VERSION => VERSION,
        PROBE_EXTENSION => is_available(argument, call.caller.domain).into(),
        GET_MVENDORID => csr::read::<{ csr::MVENDORID }>() as usize,
        GET_MARCHID => csr::read::<{ csr::MARCHID }>() as usize,
        GET_MIMPID => csr::read::<{ csr::MIMPID }>() as usize,
        _ => return SbiRet::not_supported(),
    })
}

/// Returns whether the domain has the extension (BASE, `sbi_probe_extension`).
pub(super) fn is_available(extension: usize, domain: &Domain) -> bool {
    match extension {
        srst::EID_SRST => reset::is_available(domain),
        spec_base::EID_BASE
        | time::EID_TIME
        | spi::EID_SPI
        | rfnc::EID_RFNC
        | spec_hsm::EID_HSM
        | dbcn::EID_DBCN
        | susp::EID_SUSP => true,
        extension => legacy::is_available(extension, domain),
    }
}
