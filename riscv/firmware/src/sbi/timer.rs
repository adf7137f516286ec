//! TIME (SBI 3.0, chapter 6).

use sbi_spec::binary::SbiRet;
use sbi_spec::time::SET_TIMER;

use super::Call;

pub(super) fn call(call: Call) -> SbiRet {
    let [deadline, ..] = call.arguments;
    match call.function {
        SET_TIMER => (call.caller.hart.timer()).set_supervisor_timer(deadline as u64),
        _ => return SbiRet::not_supported(),
    }
    SbiRet::success(0)
}
