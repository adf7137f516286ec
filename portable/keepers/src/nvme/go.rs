use poorwill_image::StateSection;
use poorwill_medium::nvme::register::{ACQ, AQA, ASQ, CAP, CC, CC_EN, CC_SHN, DOORBELLS, INTMS};
use zerocopy::IntoBytes;

use super::registers::{CAP_CMBS, CMBMSC};
use super::replay;
use super::state::{Kept, State, action};
use crate::device::Device;
use crate::interrupts::Interrupts;
use crate::{KeeperError, Machine, Window};

/// Restores a controller's registers, and repeats the setup if its driver was setting it
/// up.
pub(crate) fn put_back<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let kept = Kept::read(section)?;
    let state = kept.state;
    if let Some(facts) = state.shutdown_facts() {
        let (host, function) = (device.host, device.function);
        device.machine.keep_shutdown_facts(host, function, facts);
    }
    let registers = device.window(0, 0, DOORBELLS)?;
    // A repeated restore may find it enabled.
    registers.write32(CC, 0);
    if registers.read64(CAP) & CAP_CMBS != 0 {
        registers.write64(CMBMSC, state.memory_buffer);
    }
    registers.write32(AQA, state.admin_sizes);
    registers.write64(ASQ, state.submissions);
    registers.write64(ACQ, state.completions);
    registers.write32(INTMS, state.masked);
    let configuration = state.configuration & !CC_SHN;
    registers.write32(CC, configuration & !CC_EN);
    if state.action != action::REPLAY {
        return Ok(());
    }
    replay::check(&state.admin(device)?, &kept)?;
    for queue in replay::queues(device, &kept) {
        queue?.prepare()?;
    }
    replay::enable(device, &registers, configuration)?;
    // The admin queue's commands create the other queues.
    for queue in replay::queues(device, &kept) {
        queue?.run(registers.read64(CAP))?;
    }
    Ok(())
}

/// Tells the driver to reset the controller, if it was serving the OS.
pub(crate) fn announce<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let state = Kept::read(section)?.state;
    match state.action {
        action::EVENT => send_event(device, state),
        // The commands were repeated while the messages were disabled, so send them now.
        action::REPLAY => Interrupts::of(device)?.send_all(device),
        _ => Ok(()),
    }
}

fn send_event<M: Machine>(device: &Device<'_, M>, state: &State) -> Result<(), KeeperError> {
    let unreachable = KeeperError::State(device.function);
    let machine = device.machine;
    // The word with the phase tag goes last, since it makes the completion valid.
    let [rest @ .., last] = &state.event;
    let at = state.event_at;
    machine.write(at, rest.as_bytes()).ok_or(unreachable)?;
    let last_at = at.wrapping_add(rest.as_bytes().len() as u64);
    machine.write(last_at, last.as_bytes()).ok_or(unreachable)?;
    if state.message_address == 0 {
        // The driver finds the completion when it next checks the queue, or after a command's
        // time-out.
        return Ok(());
    }
    let sent = machine.send(state.message_address, state.message_data);
    sent.ok_or(unreachable)
}
