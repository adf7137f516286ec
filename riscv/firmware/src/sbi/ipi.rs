//! IPI (SBI 3.0, chapter 7).

use poorwill_domain::HartSelection;
use poorwill_hart::Request;
use sbi_spec::binary::SbiRet;
use sbi_spec::spi::SEND_IPI;

use super::call::{self, Call};

pub(super) fn call(call: Call) -> SbiRet {
    let [mask, base, ..] = call.arguments;
    match call.function {
        SEND_IPI => match call.caller.domain.harts(mask as u64, base as u64) {
            Ok(harts) => send(harts),
            Err(error) => call::refusal(error),
        },
        _ => SbiRet::not_supported(),
    }
}

/// Sends an IPI to each of the harts that has an OS.
pub(super) fn send(harts: HartSelection<'_>) -> SbiRet {
    call::harts(harts)
        .filter(|hart| hart.state().has_os())
        .for_each(|hart| hart.send_ipi(Request::SupervisorIpi));
    SbiRet::success(0)
}
