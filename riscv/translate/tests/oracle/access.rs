//! Accesses of the model's hart, which `softcore-rv64` lacks.

use poorwill_isa::{FORMS, Instruction};
use poorwill_translate::Host;

use crate::common::walk::{Access, Fault};
use crate::model::{Model, PAGE, Stop};
use crate::written;

impl Model {
    /// The physical addresses of an access's bytes.
    fn places(&mut self, address: u64, bytes: u64, access: Access) -> Result<Vec<u64>, Stop> {
        let mut places = Vec::new();
        let mut page = None;
        for number in 0..bytes {
            let byte = address.wrapping_add(number);
            if page != Some(byte / PAGE) {
                page = Some(byte / PAGE);
                let physical = self.translate(byte, access)?;
                places.push(physical);
            } else {
                places.push(places[places.len() - 1] + 1);
            }
        }
        Ok(places)
    }

    /// Returns whether the access is one of memory. Devices take aligned ones alone.
    fn is_of_memory(&self, address: u64, bytes: u64, places: &[u64]) -> Result<bool, Stop> {
        let is_all = places.iter().all(|place| self.is_memory(*place));
        match is_all || address.is_multiple_of(bytes) {
            true => Ok(is_all),
            false => Err(Stop::GivenBack("a misaligned access to a device")),
        }
    }

    pub(crate) fn load(&mut self, address: u64, bytes: u64) -> Result<u64, Stop> {
        let places = self.places(address, bytes, Access::Load)?;
        if self.is_of_memory(address, bytes, &places)? {
            let byte = |place: &u64| self.host.load(*place, 1);
            return Ok(places
                .iter()
                .rev()
                .map(byte)
                .fold(0, |value, byte| value << 8 | byte));
        }
        let loaded = self.host.load_device(places[0], bytes);
        loaded.ok_or(Stop::Exception(Access::Load.cause(Fault::Access), address))
    }

    pub(crate) fn store(&mut self, address: u64, bytes: u64, value: u64) -> Result<(), Stop> {
        let places = self.places(address, bytes, Access::Store)?;
        if self.is_of_memory(address, bytes, &places)? {
            for (number, place) in places.into_iter().enumerate() {
                self.put(place, 1, value >> (8 * number) & 0xff);
            }
            return Ok(());
        }
        let value = value & (u64::MAX >> (64 - 8 * bytes));
        let stored = self.host.store_device(places[0], bytes, value);
        stored.ok_or(Stop::Exception(Access::Store.cause(Fault::Access), address))?;
        self.stores.push((places[0], bytes, value));
        Ok(())
    }

    /// Executes atomic operations; false for others.
    pub(crate) fn execute_atomic(
        &mut self,
        decoded: &Instruction,
        address: u64,
    ) -> Result<bool, Stop> {
        let mnemonic = FORMS[decoded.operation as usize].mnemonic;
        let is_its = ["lr.", "sc.", "amo"]
            .iter()
            .any(|start| mnemonic.starts_with(start));
        if !is_its {
            return Ok(false);
        }
        let bytes = if mnemonic.ends_with(".w") { 4 } else { 8 };
        if !address.is_multiple_of(bytes) {
            return Err(Stop::GivenBack("a misaligned atomic operation"));
        }
        let is_lr = mnemonic.starts_with("lr.");
        let access = if is_lr { Access::Load } else { Access::Store };
        let place = self.translate(address, access)?;
        if !self.is_memory(place) {
            return Err(Stop::GivenBack("an atomic operation on a device"));
        }
        let signed = |value: u64| match bytes {
            4 => i64::from(value as i32).cast_unsigned(),
            _ => value,
        };
        let loaded = self.host.load(place, bytes);
        let register = signed(self.x(decoded.rs2));
        let mut stored = None;
        let mut result = signed(loaded);
        match mnemonic {
            "lr.w" | "lr.d" => self.reservation = Some((place, bytes, loaded)),
            "sc.w" | "sc.d" => {
                let is_kept = self.reservation.take() == Some((place, bytes, loaded));
                stored = is_kept.then_some(register);
                result = u64::from(!is_kept);
            }
            "amocas.w" | "amocas.d" => {
                let expected = signed(self.x(decoded.rd));
                stored = (expected == signed(loaded)).then_some(register);
            }
            _ => {
                stored = written::combined(decoded.operation, signed(loaded), register);
                assert!(stored.is_some(), "{mnemonic}");
            }
        }
        if let Some(value) = stored {
            self.put(place, bytes, value & (u64::MAX >> (64 - 8 * bytes)));
        }
        self.set(decoded.rd, result);
        Ok(true)
    }
}
