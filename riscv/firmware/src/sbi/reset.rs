//! SRST (SBI 3.0, chapter 10).

use poorwill_domain::{Domain, Request};
use sbi_spec::binary::SbiRet;
use sbi_spec::srst::{
    RESET_REASON_SYSTEM_FAILURE, RESET_TYPE_COLD_REBOOT, RESET_TYPE_SHUTDOWN,
    RESET_TYPE_WARM_REBOOT, SYSTEM_RESET,
};

use super::call::{Call, Caller};
use crate::cut;
use crate::hart::domain_state;
use crate::platform::power::{self, PowerOff};

/// The first platform-specific reason or type; Poorwill defines none.
const VENDOR: u32 = 0xf000_0000;

/// Returns whether a request has an effect: the machine has the means, or the caller's domain ends.
pub(super) fn is_available(domain: &Domain) -> bool {
    !may_reset(domain) || power::can_power_off() || power::can_reset()
}

/// Returns whether a request for power-off has an effect.
pub(super) fn can_shut_down(domain: &Domain) -> bool {
    !may_reset(domain) || power::can_power_off()
}

fn may_reset(domain: &Domain) -> bool {
    domain.ask(Request::SystemReset).is_ok()
}

/// Switches the power off, or ends a domain without the right to that.
pub(super) fn shut_down(caller: Caller) -> ! {
    match may_reset(caller.domain) {
        true => cut::power_off(PowerOff::Asked),
        false => domain_state::end(caller.hart, "its OS has shut down"),
    }
}

pub(super) fn call(call: Call) -> SbiRet {
    let [kind, reason, ..] = call.arguments;
    match call.function {
        // Both are 32 bits wide; the upper halves are ignored.
        SYSTEM_RESET => system_reset(call.caller, kind as u32, reason as u32),
        _ => SbiRet::not_supported(),
    }
}

fn system_reset(caller: Caller, kind: u32, reason: u32) -> SbiRet {
    if reason > RESET_REASON_SYSTEM_FAILURE {
        return SbiRet::invalid_param();
    }
    match kind {
        RESET_TYPE_SHUTDOWN if can_shut_down(caller.domain) => shut_down(caller),
        RESET_TYPE_SHUTDOWN => {
            power::say_no_power_off();
            SbiRet::not_supported()
        }
        RESET_TYPE_COLD_REBOOT | RESET_TYPE_WARM_REBOOT if !may_reset(caller.domain) => {
            domain_state::end(caller.hart, "its OS asks for a reboot")
        }
        // Memory is not preserved by a warm reboot either; no OS relies on that here.
        RESET_TYPE_COLD_REBOOT | RESET_TYPE_WARM_REBOOT if power::can_reset() => cut::reset(),
        RESET_TYPE_COLD_REBOOT | RESET_TYPE_WARM_REBOOT => SbiRet::not_supported(),
        VENDOR.. => SbiRet::not_supported(),
        _ => SbiRet::invalid_param(),
    }
}
