use arrayvec::ArrayVec;
use poorwill_clock::{Clock, pause};

use super::register::{COMMAND, COMMAND_MASTER, Kept, POWER_STATE};
use super::{ConfigSpace, Function, PciError};

/// Room for the changes of two mapped BARs: ten for each of seven bridges, eleven for the
/// device, and a reserve.
const MAX_CHANGES: usize = 96;

/// The longest time of a function between D3hot and D0, in either direction (5.3.1.4).
pub(super) const POWER_DELAY_MS: u64 = 10;

/// All changes to configuration space, so that they can be undone.
#[derive(Debug, Default)]
pub(super) struct Journal {
    changes: ArrayVec<Change, MAX_CHANGES>,
    power: bool,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    function: Function,
    register: u16,
    found: u32,
}

impl Journal {
    /// Clears and sets bits of a register. Returns the register's new value. Writes only
    /// if the value changes.
    pub(super) fn change(
        &mut self,
        config: &impl ConfigSpace,
        function: Function,
        (register, kept): (u16, Kept),
        clear: u32,
        set: u32,
    ) -> Result<u32, PciError> {
        let found = config.read32(function, register) & kept.0;
        let value = found & !clear | set;
        if value == found {
            return Ok(found);
        }
        self.note(function, register, found)?;
        config.write32(function, register, value);
        Ok(config.read32(function, register))
    }

    /// Like [`Journal::change`], but fails if the bits do not have the wanted values.
    pub(super) fn force(
        &mut self,
        config: &impl ConfigSpace,
        function: Function,
        (register, kept): (u16, Kept),
        clear: u32,
        set: u32,
    ) -> Result<(), PciError> {
        let value = self.change(config, function, (register, kept), clear, set)?;
        if value & (clear | set) == set {
            Ok(())
        } else {
            Err(PciError::Stuck { function, register })
        }
    }

    /// Brings a function from its power state to D0; `register` is its power control.
    pub(super) fn power_up(
        &mut self,
        config: &impl ConfigSpace,
        clock: &impl Clock,
        function: Function,
        register: u16,
    ) -> Result<(), PciError> {
        let found = config.read32(function, register) & Kept::POWER.0;
        self.note(function, register, found)?;
        self.power = true;
        config.write32(function, register, found & !POWER_STATE);
        // The function must not be accessed before this time has passed.
        pause(clock, POWER_DELAY_MS);
        match config.read32(function, register) {
            u32::MAX => Err(PciError::Absent(function)),
            control if control & POWER_STATE == 0 => Ok(()),
            _ => Err(PciError::Asleep(function)),
        }
    }

    pub(super) fn note(
        &mut self,
        function: Function,
        register: u16,
        found: u32,
    ) -> Result<(), PciError> {
        let change = Change {
            function,
            register,
            found,
        };
        self.changes
            .try_push(change)
            .map_err(|_| PciError::TooDeep(function))
    }

    /// Restores all registers, the last change first. The function `cut` does not get bus
    /// mastering back.
    pub(super) fn undo(self, config: &impl ConfigSpace, clock: &impl Clock, cut: Option<Function>) {
        for change in self.changes.into_iter().rev() {
            let Change {
                function,
                register,
                mut found,
            } = change;
            if register == COMMAND && cut == Some(function) {
                found &= !COMMAND_MASTER;
            }
            config.write32(function, register, found);
        }
        if self.power {
            // The function must not be accessed before this time has passed.
            pause(clock, POWER_DELAY_MS);
        }
    }
}
