//! The protection of the firmware's memory.

use crate::{arch::guard, machine::Machine};

/// Whether the hart has what keeps us out of the firmware's memory (PMP).
pub(super) fn is_firmware_closed(machine: &Machine) -> bool {
    guard::load32(machine.firmware_address()).is_some()
}
