//! TIME (SBI 3.0, chapter 6).

use sbi_spec::binary::SbiRet;
use sbi_spec::time::SET_TIMER;

use super::call::{Call, Caller};

pub(super) fn call(call: Call) -> SbiRet {
    let [deadline, ..] = call.arguments;
    match call.function {
        SET_TIMER => set(call.caller, deadline as u64),
        _ => SbiRet::not_supported(),
    }
}

pub(super) fn set(caller: Caller, deadline: u64) -> SbiRet {
    caller.hart.timer().set_supervisor_timer(deadline);
    SbiRet::success(0)
}
