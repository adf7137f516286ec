use poorwill_image::StateWriter;
use poorwill_medium::nvme::register::{
    ACQ, AQA, ASQ, CAP, CC, CC_EN, CC_SHN, CC_SHN_NORMAL, CSTS, CSTS_RDY, CSTS_SHST,
    CSTS_SHST_DONE, DOORBELLS, INTMS,
};

use super::admin::Found;
use super::registers::{CAP_CMBS, CMBMSC};
use super::replay;
use super::shutdown::Shutdown;
use super::state::{State, TAG, VERSION, action, known};
use crate::device::Device;
use crate::interrupts::Interrupts;
use crate::machine::wait_until;
use crate::{KeeperError, Machine, Window};

pub(crate) struct Stopping<M: Machine> {
    registers: M::Window,
    state: State,
    is_running: bool,
}

/// The admin queue counts as idle after this time without a change, in microseconds. The
/// commands of a driver's setup take less.
const SETTLED_US: u64 = 300;

pub(crate) fn begin<M: Machine>(
    device: &Device<'_, M>,
    until: u64,
) -> Result<Stopping<M>, KeeperError> {
    let registers = device.window(0, 0, DOORBELLS)?;
    let configuration = registers.read32(CC);
    let status = registers.read32(CSTS);
    if status == u32::MAX {
        return Err(KeeperError::Unreachable(device.function));
    }
    // On a controller without a buffer, this register has another meaning.
    let has_buffer = registers.read64(CAP) & CAP_CMBS != 0;
    let memory_buffer = if has_buffer {
        registers.read64(CMBMSC)
    } else {
        0
    };
    let mut state = State {
        configuration,
        admin_sizes: registers.read32(AQA),
        submissions: registers.read64(ASQ),
        completions: registers.read64(ACQ),
        memory_buffer,
        masked: registers.read32(INTMS),
        action: action::NONE,
        event: [0; 4],
        event_at: 0,
        message_address: 0,
        message_data: 0,
        commands: 0,
        normal_us: 0,
        known: known::NOTHING,
    };
    let facts = device.machine.shutdown_facts(device.host, device.function);
    state.keep(facts);
    let is_enabled = configuration & CC_EN != 0;
    let is_running = is_enabled && status & CSTS_RDY != 0;
    if is_enabled && !is_running {
        // The driver is waiting until the controller is ready.
        state.action = action::REPLAY;
    }
    if is_running {
        if configuration & CC_SHN == 0 {
            settle(device, &state, until)?;
        }
        let left_us = until.saturating_sub(device.machine.microseconds());
        let too_slow = KeeperError::TooSlow(device.function, state.normal_us);
        let shutdown = Shutdown::within(left_us, facts).ok_or(too_slow)?;
        registers.write32(CC, configuration & !CC_SHN | shutdown.notification());
    }
    Ok(Stopping {
        registers,
        state,
        is_running,
    })
}

/// Waits until the commands of a driver that sets the controller up are completed, for at most half
/// of the remaining time. Does not wait for a controller that serves an OS.
fn settle<M: Machine>(
    device: &Device<'_, M>,
    state: &State,
    until: u64,
) -> Result<(), KeeperError> {
    let admin = state.admin(device)?;
    let mut last = admin.look()?;
    let mut since = device.machine.microseconds();
    let until = since + until.saturating_sub(since) / 2;
    wait_until(device.machine, until, || {
        let now = device.machine.microseconds();
        let Ok(found) = admin.look() else {
            return true;
        };
        if found != last {
            last = found;
            since = now;
        }
        let is_settled = now.saturating_sub(since) >= SETTLED_US;
        matches!(found, Found::Serving { .. }) || is_settled && found != Found::Busy
    });
    Ok(())
}

impl<M: Machine> Stopping<M> {
    /// Waits until the controller is shut down, and disables it.
    pub(crate) fn finish(
        mut self,
        device: &Device<'_, M>,
        until: u64,
        into: &mut StateWriter<'_>,
    ) -> Result<(), KeeperError> {
        let not_done = KeeperError::NotDone(device.function);
        let machine = device.machine;
        let is_shut = || self.registers.read32(CSTS) & CSTS_SHST == CSTS_SHST_DONE;
        let idle = self.state.configuration & !(CC_EN | CC_SHN);
        if self.is_running && !wait_until(machine, until, is_shut) {
            return Err(not_done);
        }
        let is_disabled = || self.registers.read32(CSTS) & CSTS_RDY == 0;
        self.registers.write32(CC, idle);
        if !wait_until(machine, until, is_disabled) {
            return Err(not_done);
        }
        if self.is_running {
            self.flush_again(device, idle, until);
            self.decide(device)?;
        }
        let mut section = into.begin(device.owner(TAG), device.number(), VERSION);
        section.append(&self.state)?;
        if self.state.commands > 0 {
            let how = (self.state.commands, self.registers.read64(CAP));
            replay::save(&self.state.admin(device)?, how, &mut section)?;
        }
        Ok(section.end()?)
    }

    /// Shuts down a second time, now without commands: commands completed during the
    /// first shutdown may not be durable. Some controllers ignore this while disabled;
    /// for them the first shutdown sufficed, so the wait is short.
    fn flush_again(&self, device: &Device<'_, M>, idle: u32, until: u64) {
        const PATIENCE_US: u64 = 200;
        let machine = device.machine;
        self.registers.write32(CC, idle | CC_SHN_NORMAL);
        let until = until.min(machine.microseconds() + PATIENCE_US);
        let is_shut = || self.registers.read32(CSTS) & CSTS_SHST == CSTS_SHST_DONE;
        // A timeout is no error here.
        let _ = wait_until(machine, until, is_shut);
        self.registers.write32(CC, idle);
    }

    /// Decides how Go returns the controller to its driver.
    fn decide(&mut self, device: &Device<'_, M>) -> Result<(), KeeperError> {
        let admin = self.state.admin(device)?;
        match admin.look()? {
            Found::Serving { request } => {
                let (at, event) = admin.event(request)?;
                self.state.action = action::EVENT;
                (self.state.event_at, self.state.event) = (at, event);
                // The admin queue's completions use message 0.
                if let Some(message) = Interrupts::of(device)?.message(0) {
                    self.state.message_address = message.address;
                    self.state.message_data = message.data;
                }
            }
            Found::SettingUp { commands, .. } => {
                self.state.action = action::REPLAY;
                self.state.commands = commands;
            }
            Found::Busy => return Err(KeeperError::State(device.function)),
        }
        Ok(())
    }
}
