//! A function's interrupts, as its driver has configured them.

use poorwill_pci::{self as pci, Message, MessageTable, Messages};

use crate::device::Device;
use crate::{KeeperError, Machine, Window};

/// An entry of a message table: address, upper half, data, control.
pub(crate) type Entry = [u32; 4];

const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

/// The bit of the control word that masks the message.
const MASKED: u32 = 1;

pub(crate) enum Interrupts<W> {
    /// A pin, or no interrupts.
    Pin,
    One(Message),
    Table(Table<W>),
}

pub(crate) struct Table<W> {
    window: W,
    pub(crate) entries: u16,
}

impl<W: Window> Interrupts<W> {
    /// Reads the function's configuration.
    pub(crate) fn of<M: Machine<Window = W>>(device: &Device<'_, M>) -> Result<Self, KeeperError> {
        let config = device.machine.config(device.host);
        Ok(match pci::messages(&config, device.function)? {
            Messages::None => Interrupts::Pin,
            Messages::One(message) => Interrupts::One(message),
            Messages::Table(table) => Interrupts::Table(Table::of(device, &table)?),
        })
    }

    /// The message with this number, or the only message; `None` if it is masked.
    pub(crate) fn message(&self, number: u16) -> Option<Message> {
        match self {
            Interrupts::Pin => None,
            Interrupts::One(message) => Some(*message),
            Interrupts::Table(table) => table.message(number),
        }
    }

    /// Whether the driver accepts the interrupt with this number. A pin and a single
    /// message are never masked in the function.
    pub(crate) fn takes(&self, number: u16) -> bool {
        match self {
            Interrupts::Pin | Interrupts::One(_) => true,
            Interrupts::Table(table) => table.message(number).is_some(),
        }
    }

    pub(crate) fn are_taken(&self) -> bool {
        (0..self.count().max(1)).any(|number| self.takes(number))
    }

    fn count(&self) -> u16 {
        match self {
            Interrupts::Pin => 0,
            Interrupts::One(_) => 1,
            Interrupts::Table(table) => table.entries,
        }
    }

    /// Sends all unmasked messages.
    pub(crate) fn send_all<M: Machine>(&self, device: &Device<'_, M>) -> Result<(), KeeperError> {
        let messages = (0..self.count()).filter_map(|number| self.message(number));
        // A message without an address was never set up.
        for Message { address, data } in messages.filter(|message| message.address != 0) {
            let sent = device.machine.send(address, data);
            sent.ok_or(KeeperError::State(device.function))?;
        }
        Ok(())
    }
}

impl<W: Window> Table<W> {
    /// Finds the registers of a message table.
    pub(crate) fn of<M: Machine<Window = W>>(
        device: &Device<'_, M>,
        table: &MessageTable,
    ) -> Result<Self, KeeperError> {
        let bytes = u64::from(table.entries) * ENTRY_BYTES;
        Ok(Table {
            window: device.window(table.bar, table.offset, bytes)?,
            entries: table.entries,
        })
    }

    fn at(number: u16, dword: usize) -> u64 {
        u64::from(number) * ENTRY_BYTES + 4 * dword as u64
    }

    pub(crate) fn entry(&self, number: u16) -> Entry {
        core::array::from_fn(|dword| self.window.read32(Self::at(number, dword)))
    }

    pub(crate) fn set_entry(&self, number: u16, entry: &Entry) {
        for (dword, value) in entry.iter().enumerate() {
            self.window.write32(Self::at(number, dword), *value);
        }
    }

    fn message(&self, number: u16) -> Option<Message> {
        if number >= self.entries {
            return None;
        }
        let [low, high, data, control] = self.entry(number);
        (control & MASKED == 0).then_some(Message {
            address: u64::from(high) << 32 | u64::from(low),
            data,
        })
    }
}
