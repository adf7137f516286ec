//! How a function interrupts, as its driver has set it up.

use poorwill_medium::pci::{self, Message, MessageTable, Messages};

use crate::device::Device;
use crate::{KeeperError, Machine, Window};

/// An entry of a table of messages: address, upper half, data, control.
pub(crate) type Entry = [u32; 4];

const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

/// The control's bit that masks the message.
const MASKED: u32 = 1;

/// How a function interrupts.
pub(crate) enum Interrupts<W> {
    /// By a pin, or not at all.
    Pin,
    /// By one message.
    One(Message),
    /// By those of a table.
    Table(Table<W>),
}

/// A function's table of messages.
pub(crate) struct Table<W> {
    window: W,
    pub(crate) entries: u16,
}

impl<W: Window> Interrupts<W> {
    /// Finds it.
    ///
    /// # Errors
    ///
    /// [`KeeperError`].
    pub(crate) fn of<M: Machine<Window = W>>(device: &Device<'_, M>) -> Result<Self, KeeperError> {
        let config = device.machine.config(device.host);
        Ok(match pci::messages(&config, device.function)? {
            Messages::None => Interrupts::Pin,
            Messages::One(message) => Interrupts::One(message),
            Messages::Table(table) => Interrupts::Table(Table::of(device, &table)?),
        })
    }

    /// The message of a number, or the one that there is, unless it is masked.
    pub(crate) fn message(&self, number: u16) -> Option<Message> {
        match self {
            Interrupts::Pin => None,
            Interrupts::One(message) => Some(*message),
            Interrupts::Table(table) => table.message(number),
        }
    }

    /// Whether a driver takes the interrupts of a number. Pins are not masked in the
    /// function, nor is the one message.
    pub(crate) fn takes(&self, number: u16) -> bool {
        match self {
            Interrupts::Pin | Interrupts::One(_) => true,
            Interrupts::Table(table) => table.message(number).is_some(),
        }
    }

    /// Whether a driver takes any.
    pub(crate) fn are_taken(&self) -> bool {
        (0..self.count().max(1)).any(|number| self.takes(number))
    }

    /// How many messages there are.
    fn count(&self) -> u16 {
        match self {
            Interrupts::Pin => 0,
            Interrupts::One(_) => 1,
            Interrupts::Table(table) => table.entries,
        }
    }

    /// Sends all that its driver wants.
    ///
    /// # Errors
    ///
    /// [`KeeperError::State`].
    pub(crate) fn send_all<M: Machine>(&self, device: &Device<'_, M>) -> Result<(), KeeperError> {
        let messages = (0..self.count()).filter_map(|number| self.message(number));
        // Those that nobody has set up have no address.
        for Message { address, data } in messages.filter(|message| message.address != 0) {
            let sent = device.machine.send(address, data);
            sent.ok_or(KeeperError::State(device.function))?;
        }
        Ok(())
    }
}

impl<W: Window> Table<W> {
    /// The table that lies there.
    ///
    /// # Errors
    ///
    /// [`KeeperError::Unreachable`].
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

    /// An entry.
    pub(crate) fn entry(&self, number: u16) -> Entry {
        core::array::from_fn(|dword| self.window.read32(Self::at(number, dword)))
    }

    /// Writes an entry.
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
