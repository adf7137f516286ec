//! An HBA's ports, and how to start and halt them.

use crate::device::Device;
use crate::machine::wait_until;
use crate::{KeeperError, Machine, Window};

use super::registers::*;

pub(super) const MAX_PORTS: usize = 32;

const BAR: u8 = 5;

/// The duration of COMRESET (AHCI 1.3.1, 10.4.2).
const COMRESET_US: u64 = 1000;

pub(super) struct Hba<'a, M: Machine> {
    pub(super) device: Device<'a, M>,
    pub(super) registers: M::Window,
    pub(super) implemented: u32,
}

pub(super) struct Port<'a, M: Machine> {
    registers: &'a M::Window,
    first: u64,
}

/// The port numbers in a set of bits.
pub(super) fn numbers(set: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).filter(move |number| set >> number & 1 != 0)
}

impl<'a, M: Machine> Hba<'a, M> {
    /// Finds the HBA's registers.
    pub(super) fn new(device: Device<'a, M>) -> Result<Self, KeeperError> {
        let implemented = device.window(BAR, 0, PORTS)?.read32(PI);
        let ports = u64::from(u32::BITS - implemented.leading_zeros());
        Ok(Hba {
            device,
            registers: device.window(BAR, 0, PORTS + ports * PORT_BYTES)?,
            implemented,
        })
    }

    pub(super) fn read(&self, register: u64) -> u32 {
        self.registers.read32(register)
    }

    pub(super) fn write(&self, register: u64, value: u32) {
        self.registers.write32(register, value);
    }

    pub(super) fn port(&self, number: u32) -> Port<'_, M> {
        Port {
            registers: &self.registers,
            first: PORTS + PORT_BYTES * u64::from(number),
        }
    }

    pub(super) fn not_done(&self) -> KeeperError {
        KeeperError::NotDone(self.device.function)
    }

    pub(super) fn state(&self) -> KeeperError {
        KeeperError::State(self.device.function)
    }

    /// Waits until `condition` holds.
    pub(super) fn wait(
        &self,
        until: u64,
        condition: impl FnMut() -> bool,
    ) -> Result<(), KeeperError> {
        let is_done = wait_until(self.device.machine, until, condition);
        is_done.then_some(()).ok_or_else(|| self.not_done())
    }

    /// Halts ports: they issue no more commands, and write no memory.
    pub(super) fn halt(&self, ports: u32, until: u64) -> Result<(), KeeperError> {
        for (enable, runs) in [(CMD_START, CMD_LIST_RUNS), (CMD_FIS, CMD_FIS_RUNS)] {
            for number in numbers(ports) {
                self.port(number).command(enable, 0);
            }
            for number in numbers(ports) {
                let port = self.port(number);
                self.wait(until, || port.read(CMD) & runs == 0)?;
            }
        }
        Ok(())
    }

    /// Starts halted ports with a command list and a FIS area, once their devices are
    /// ready. Resets the devices of the ports in `reset` first. No interrupt is pending
    /// at the end.
    pub(super) fn start(
        &self,
        ports: u32,
        reset: u32,
        [list, fis]: [u64; 2],
        until: u64,
    ) -> Result<(), KeeperError> {
        for number in numbers(ports) {
            let port = self.port(number);
            port.write_wide(CLB, list);
            port.write_wide(FB, fis);
            port.command(0, CMD_FIS);
        }
        self.reset_devices(ports & reset);
        for number in numbers(ports) {
            let port = self.port(number);
            self.wait(until, || {
                port.is_present() && port.read(TFD) & TFD_BUSY == 0
            })?;
            port.write(SERR, u32::MAX);
            port.write(PXIS, u32::MAX);
            port.command(0, CMD_START);
        }
        Ok(())
    }

    fn reset_devices(&self, ports: u32) {
        if ports == 0 {
            return;
        }
        for number in numbers(ports) {
            let port = self.port(number);
            let control = port.read(SCTL) & !DETECTION;
            port.write(SCTL, control | SCTL_RESET);
        }
        let machine = self.device.machine;
        let end = machine.microseconds().saturating_add(COMRESET_US);
        wait_until(machine, end, || false);
        for number in numbers(ports) {
            let port = self.port(number);
            port.write(SCTL, port.read(SCTL) & !DETECTION);
        }
    }
}

impl<M: Machine> Port<'_, M> {
    pub(super) fn read(&self, register: u64) -> u32 {
        self.registers.read32(self.first + register)
    }

    pub(super) fn write(&self, register: u64, value: u32) {
        self.registers.write32(self.first + register, value);
    }

    /// Writes a register and the following one, its upper half.
    #[allow(clippy::cast_possible_truncation, reason = "halves")]
    pub(super) fn write_wide(&self, register: u64, value: u64) {
        self.write(register, value as u32);
        self.write(register + 4, (value >> 32) as u32);
    }

    /// Clears and sets bits of the command register, without starting an action.
    pub(super) fn command(&self, clear: u32, set: u32) {
        let command = self.read(CMD) & !(CMD_OVERRIDE | CMD_LINK);
        self.write(CMD, command & !clear | set);
    }

    pub(super) fn is_present(&self) -> bool {
        self.read(SSTS) & DETECTION == SSTS_PRESENT
    }
}
