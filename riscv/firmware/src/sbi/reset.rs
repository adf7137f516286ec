//! SRST (SBI 3.0, chapter 10).

use poorwill_domain::{Domain, Request};
use sbi_spec::binary::SbiRet;
use sbi_spec::srst::{
    RESET_REASON_SYSTEM_FAILURE, RESET_TYPE_COLD_REBOOT, RESET_TYPE_SHUTDOWN,
    RESET_TYPE_WARM_REBOOT, SYSTEM_RESET,
};

use super::Call;
use crate::cut;
use crate::platform::power::{self, PowerOff};

/// The first platform-specific reason or type; Poorwill defines none.
const VENDOR: u32 = 0xf000_0000;

/// Returns whether the domain has the right and the machine the means. SRST has no error for a
/// missing right (SBI 3.0, table 10.2), so the extension is then absent.
pub(super) fn is_available(domain: &Domain) -> bool {
    domain.ask(Request::SystemReset).is_ok() && (power::can_power_off() || power::can_reset())
}

/// Returns whether the domain may switch the power off, and the machine can.
pub(super) fn can_shut_down(domain: &Domain) -> bool {
    domain.ask(Request::SystemReset).is_ok() && power::can_power_off()
}

/// Switches the power off; the caller has checked the right.
pub(super) fn shut_down() -> ! {
    cut::power_off(PowerOff::Asked)
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
        // Memory is not preserved by a warm reboot either; no OS relies on that here.
        RESET_TYPE_COLD_REBOOT | RESET_TYPE_WARM_REBOOT if power::can_reset() => cut::reset(),
        RESET_TYPE_SHUTDOWN..=RESET_TYPE_WARM_REBOOT => SbiRet::not_supported(),
        VENDOR.. => SbiRet::not_supported(),
        _ => SbiRet::invalid_param(),
    }
}
