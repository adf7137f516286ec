//! IPI (SBI 3.0, chapter 7).

use poorwill_hart::Request;
use sbi_spec::binary::SbiRet;
use sbi_spec::spi::SEND_IPI;

use super::Call;

pub(super) fn call(call: Call) -> SbiRet {
    let [mask, base, ..] = call.arguments;
    match call.function {
        SEND_IPI => send(mask, base).map_or_else(|error| error, |()| SbiRet::success(0)),
        _ => SbiRet::not_supported(),
    }
}

fn send(mask: usize, base: usize) -> Result<(), SbiRet> {
    super::harts(mask, base)?
        .filter(|hart| hart.state().has_os())
        .for_each(|hart| hart.send_ipi(Request::SupervisorIpi));
    Ok(())
}
