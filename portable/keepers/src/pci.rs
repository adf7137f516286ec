//! Keeper of each function's configuration and message table.

use arrayvec::ArrayVec;
use poorwill_image::{StateSection, StateWriter};
use poorwill_pci::{self as pci, SavedConfig, SavedRegister};

use crate::device::Device;
use crate::interrupts::{Entry, Interrupts, Table};
use crate::{KeeperError, Machine};

/// The tag of a configuration's sections.
pub(crate) const CONFIG: &[u8; 3] = b"PCI";

/// The tag of a message table's sections.
pub(crate) const TABLE: &[u8; 3] = b"MSI";

const VERSION: u16 = 1;

/// The most messages of a function that can be saved.
const MAX_MESSAGES: usize = 256;

/// Saves a function's configuration and its messages.
#[inline(never)]
pub(crate) fn save<M: Machine>(
    device: &Device<'_, M>,
    into: &mut StateWriter<'_>,
) -> Result<(), KeeperError> {
    let config = device.machine.config(device.host);
    let saved = SavedConfig::take(&config, device.function)?;
    let number = device.number();
    into.section(device.owner(CONFIG), number, VERSION, saved.registers())?;
    if let Interrupts::Table(table) = Interrupts::of(device)? {
        let mut entries = ArrayVec::<_, MAX_MESSAGES>::new();
        read_table(device, &table, &mut entries)?;
        into.section(device.owner(TABLE), number, VERSION, entries.as_slice())?;
    }
    Ok(())
}

fn read_table<M: Machine>(
    device: &Device<'_, M>,
    table: &Table<M::Window>,
    entries: &mut ArrayVec<Entry, MAX_MESSAGES>,
) -> Result<(), KeeperError> {
    // Messages past the limit cannot be saved, so they must be unused.
    for (place, number) in (0..table.entries).enumerate() {
        let entry = table.entry(number);
        let is_used = entry[0] | entry[1] != 0;
        if place < MAX_MESSAGES {
            entries.push(entry);
        } else if is_used {
            return Err(KeeperError::State(device.function));
        }
    }
    Ok(())
}

/// The registers in a section.
pub(crate) fn registers<'a>(
    section: &StateSection<'a>,
) -> Result<&'a [SavedRegister], KeeperError> {
    Ok(section.read::<[SavedRegister]>(VERSION)?)
}

/// The message table in a section.
pub(crate) fn table<'a>(section: &StateSection<'a>) -> Result<&'a [Entry], KeeperError> {
    Ok(section.read::<[Entry]>(VERSION)?)
}

/// Restores the configuration, except the interrupt enables.
pub(crate) fn put_back<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let config = device.machine.config(device.host);
    let registers = registers(section)?;
    if !pci::is_same(&config, device.function, registers) {
        return Err(KeeperError::Changed(device.function));
    }
    pci::put_back(&config, device.function, registers);
    Ok(())
}

/// Restores the message table.
pub(crate) fn put_back_table<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let entries = table(section)?;
    let config = device.machine.config(device.host);
    let table = pci::message_table(&config, device.function)?;
    let table = table.filter(|table| entries.len() <= table.entries.into());
    let table = table.ok_or(KeeperError::Changed(device.function))?;
    let table = Table::of(device, &table)?;
    for (number, entry) in (0..).zip(entries) {
        table.set_entry(number, entry);
    }
    Ok(())
}

pub(crate) fn announce<M: Machine>(device: &Device<'_, M>, registers: &[SavedRegister]) {
    let config = device.machine.config(device.host);
    pci::put_back_interrupts(&config, device.function, registers);
}
