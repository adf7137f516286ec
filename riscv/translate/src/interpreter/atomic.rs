//! A and Zacas (unprivileged specification, chapters 14 and 15).

use poorwill_hart::page_entry::Intent;
use poorwill_isa::{Instruction, Operation};

use crate::hart::VirtualHart;
use crate::host::Host;
use crate::state::Reservation;
use crate::trap::{Trap, UNKNOWN};

/// Bytes of the access of an atomic operation; `None` for others.
pub(crate) fn bytes(operation: Operation) -> Option<u64> {
    Some(match operation {
        Operation::LrW
        | Operation::ScW
        | Operation::AmoswapW
        | Operation::AmoaddW
        | Operation::AmoxorW
        | Operation::AmoandW
        | Operation::AmoorW
        | Operation::AmominW
        | Operation::AmomaxW
        | Operation::AmominuW
        | Operation::AmomaxuW
        | Operation::AmocasW => 4,
        Operation::LrD
        | Operation::ScD
        | Operation::AmoswapD
        | Operation::AmoaddD
        | Operation::AmoxorD
        | Operation::AmoandD
        | Operation::AmoorD
        | Operation::AmominD
        | Operation::AmomaxD
        | Operation::AmominuD
        | Operation::AmomaxuD
        | Operation::AmocasD => 8,
        _ => return None,
    })
}

/// A loaded value, with its sign.
fn extended(value: u64, bytes: u64) -> u64 {
    match bytes {
        4 => value as u32 as i32 as u64,
        _ => value,
    }
}

/// The stored value of an AMO. Both values have their signs.
fn combined(operation: Operation, loaded: u64, value: u64) -> Option<u64> {
    let signed = |value: u64| value.cast_signed();
    Some(match operation {
        Operation::AmoswapW | Operation::AmoswapD => value,
        Operation::AmoaddW | Operation::AmoaddD => loaded.wrapping_add(value),
        Operation::AmoxorW | Operation::AmoxorD => loaded ^ value,
        Operation::AmoandW | Operation::AmoandD => loaded & value,
        Operation::AmoorW | Operation::AmoorD => loaded | value,
        Operation::AmominW | Operation::AmominD => {
            signed(loaded).min(signed(value)).cast_unsigned()
        }
        Operation::AmomaxW | Operation::AmomaxD => {
            signed(loaded).max(signed(value)).cast_unsigned()
        }
        // Sign extension keeps the order of unsigned words.
        Operation::AmominuW | Operation::AmominuD => loaded.min(value),
        Operation::AmomaxuW | Operation::AmomaxuD => loaded.max(value),
        _ => return None,
    })
}

impl VirtualHart {
    /// Executes an atomic operation on `bytes` bytes. The lent hart itself executes those on
    /// devices and at misaligned addresses.
    pub(crate) fn atomic(
        &mut self,
        instruction: &Instruction,
        bytes: u64,
        host: &impl Host,
    ) -> Result<(), Trap> {
        let address = self.get(instruction.rs1);
        if !address.is_multiple_of(bytes) {
            return Err(UNKNOWN);
        }
        let operation = instruction.operation;
        let is_load = matches!(operation, Operation::LrW | Operation::LrD);
        let intent = if is_load { Intent::Load } else { Intent::Store };
        let place = self.translate(address, intent, host)?;
        if !place.is_memory {
            return Err(UNKNOWN);
        }
        let loaded = host.load(place.physical, bytes);
        let old = extended(loaded, bytes);
        let value = extended(self.get(instruction.rs2), bytes);
        let reserved = Reservation {
            address: place.physical,
            bytes,
            value: loaded,
        };
        let stored = match operation {
            Operation::LrW | Operation::LrD => {
                self.reservation = Some(reserved);
                None
            }
            Operation::ScW | Operation::ScD => {
                let is_kept = self.reservation.take() == Some(reserved);
                self.set(instruction.rd, u64::from(!is_kept));
                if is_kept {
                    self.store_at(place, address, bytes, value, host)?;
                }
                return Ok(());
            }
            Operation::AmocasW | Operation::AmocasD => {
                let expected = extended(self.get(instruction.rd), bytes);
                (old == expected).then_some(value)
            }
            _ => Some(combined(operation, old, value).ok_or(UNKNOWN)?),
        };
        if let Some(value) = stored {
            self.store_at(place, address, bytes, value, host)?;
        }
        self.set(instruction.rd, old);
        Ok(())
    }
}
