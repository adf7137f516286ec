//! SRST (SBI 3.0, chapter 10).

use poorwill_domain::{Domain, Request};
use sbi_spec::binary::SbiRet;
use sbi_spec::srst::{
    RESET_REASON_SYSTEM_FAILURE, RESET_TYPE_COLD_REBOOT, RESET_TYPE_SHUTDOWN,
    RESET_TYPE_WARM_REBOOT, SYSTEM_RESET,
};

use super::Call;
use crate::cut;
use crate::platform::power;

/// First of the reasons and types that are a platform's own, of which we
/// define none.
const VENDOR: u32 = 0xf000_0000;

/// Whether the domain may ask, and the machine can do it. SRST has no error for a
/// domain that may not (SBI 3.0, table 10.2): for it the extension is not there.
pub(super) fn is_available(domain: &Domain) -> bool {
    domain.ask(Request::SystemReset).is_ok() && (power::can_power_off() || power::can_reset())
}

/// Whether it may have the machine's power off, and that can be done.
pub(super) fn can_shut_down(domain: &Domain) -> bool {
    domain.ask(Request::SystemReset).is_ok() && power::can_power_off()
}

/// Switches the power off, for a domain that may.
pub(super) fn shut_down() -> ! {
    cut::power_off(|| power::power_off())
}

pub(super) fn call(call: Call) -> SbiRet {
    let [kind, reason, ..] = call.arguments;
    match call.function {
        // Both are 32 bits wide; the upper halves are ignored.
        SYSTEM_RESET => system_reset(kind as u32, reason as u32),
        _ => SbiRet::not_supported(),
    }
}

fn system_reset(kind: u32, reason: u32) -> SbiRet {
    if reason > RESET_REASON_SYSTEM_FAILURE {
        return SbiRet::invalid_param();
    }
    match kind {
        RESET_TYPE_SHUTDOWN if power::can_power_off() => shut_down(),
        // Memory is not kept over either, as nothing here relies on it.
        RESET_TYPE_COLD_REBOOT | RESET_TYPE_WARM_REBOOT if power::can_reset() => cut::reset(),
        RESET_TYPE_SHUTDOWN..=RESET_TYPE_WARM_REBOOT => SbiRet::not_supported(),
        VENDOR.. => SbiRet::not_supported(),
        _ => SbiRet::invalid_param(),
    }
}
