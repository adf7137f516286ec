//! Keeper of what every function has: its configuration, and its table of messages.

use arrayvec::ArrayVec;
use poorwill_image::{StateSection, StateWriter};
use poorwill_medium::pci::{self, ConfigSpace, MessageTable, Messages, SavedConfig, SavedRegister};

use crate::device::Device;
use crate::{KeeperError, Machine, Window};

/// Of the configuration.
pub(crate) const CONFIG: &[u8; 3] = b"PCI";

/// Of the table of messages.
pub(crate) const TABLE: &[u8; 3] = b"MSI";

const VERSION: u16 = 1;

/// Messages of a function that are kept at most.
const MAX_MESSAGES: usize = 256;

/// An entry of the table: address, upper half, data, control.
type Entry = [u32; 4];
const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

/// Writes down a function's configuration and its messages.
///
/// # Errors
///
/// [`KeeperError`].
#[inline(never)]
pub(crate) fn save<M: Machine>(
    device: &Device<'_, M>,
    into: &mut StateWriter<'_>,
) -> Result<(), KeeperError> {
    let config = device.machine.config(device.host);
    let saved = SavedConfig::take(&config, device.function)?;
    let number = device.number();
    into.section(device.owner(CONFIG), number, VERSION, saved.registers())?;
    if let Messages::Table(table) = pci::messages(&config, device.function)? {
        let mut entries = ArrayVec::<_, MAX_MESSAGES>::new();
        read_table(device, &table, &mut entries)?;
        into.section(device.owner(TABLE), number, VERSION, entries.as_slice())?;
    }
    Ok(())
}

fn window<M: Machine>(
    device: &Device<'_, M>,
    table: &MessageTable,
) -> Result<M::Window, KeeperError> {
    let bytes = u64::from(table.entries) * ENTRY_BYTES;
    device.window(table.bar, table.offset, bytes)
}

fn read_table<M: Machine>(
    device: &Device<'_, M>,
    table: &MessageTable,
    entries: &mut ArrayVec<Entry, MAX_MESSAGES>,
) -> Result<(), KeeperError> {
    let window = window(device, table)?;
    let entry = |place: u16| -> Entry {
        core::array::from_fn(|dword| {
            window.read32(u64::from(place) * ENTRY_BYTES + 4 * dword as u64)
        })
    };
    // Those behind the last that is kept must be unused.
    for (place, entry) in (0..table.entries).map(entry).enumerate() {
        let is_used = entry[0] | entry[1] != 0;
        if place < MAX_MESSAGES {
            entries.push(entry);
        } else if is_used {
            return Err(KeeperError::State(device.function));
        }
    }
    Ok(())
}

/// The message of a function by its number in the table, or its one message.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn message<M: Machine>(
    device: &Device<'_, M>,
    number: u16,
) -> Result<Option<pci::Message>, KeeperError> {
    /// The entry's control: it is masked.
    const MASKED: u32 = 1;
    let config = device.machine.config(device.host);
    let message = match pci::messages(&config, device.function)? {
        Messages::None => None,
        Messages::One(message) => Some(message),
        Messages::Table(table) => {
            let window = window(device, &table)?;
            let [low, high, data, control] = core::array::from_fn(|dword| {
                window.read32(u64::from(number) * ENTRY_BYTES + 4 * dword as u64)
            });
            (number < table.entries && control & MASKED == 0).then_some(pci::Message {
                address: u64::from(high) << 32 | u64::from(low),
                data,
            })
        }
    };
    Ok(message)
}

/// Whether a driver takes any of a function's interrupts: one that is not masked.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn is_listened_to<M: Machine>(device: &Device<'_, M>) -> Result<bool, KeeperError> {
    let config = device.machine.config(device.host);
    let Messages::Table(table) = pci::messages(&config, device.function)? else {
        // Pins are not masked in the function.
        return Ok(true);
    };
    for number in 0..table.entries {
        if message(device, number)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a driver takes the function's interrupts of a number.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn takes<M: Machine>(device: &Device<'_, M>, number: u16) -> Result<bool, KeeperError> {
    let config = device.machine.config(device.host);
    Ok(match pci::messages(&config, device.function)? {
        Messages::Table(_) => message(device, number)?.is_some(),
        Messages::None | Messages::One(_) => true,
    })
}

/// Sends all messages of a function that its driver wants.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn send_all<M: Machine>(device: &Device<'_, M>) -> Result<(), KeeperError> {
    let config = device.machine.config(device.host);
    let count = match pci::messages(&config, device.function)? {
        Messages::None => 0,
        Messages::One(_) => 1,
        Messages::Table(table) => table.entries,
    };
    for number in 0..count {
        // Those that nobody has set up have no address.
        let message = message(device, number)?.filter(|message| message.address != 0);
        if let Some(pci::Message { address, data }) = message {
            let sent = device.machine.send(address, data);
            sent.ok_or(KeeperError::State(device.function))?;
        }
    }
    Ok(())
}

/// The registers that a section has.
///
/// # Errors
///
/// [`KeeperError::Record`].
pub(crate) fn registers<'a>(
    section: &StateSection<'a>,
) -> Result<&'a [SavedRegister], KeeperError> {
    Ok(section.read::<[SavedRegister]>(VERSION)?)
}

/// Checks a table that is to be put back.
///
/// # Errors
///
/// [`KeeperError::Record`].
pub(crate) fn table<'a>(section: &StateSection<'a>) -> Result<&'a [Entry], KeeperError> {
    Ok(section.read::<[Entry]>(VERSION)?)
}

/// Puts the configuration back, but for what has the function interrupt.
///
/// # Errors
///
/// [`KeeperError::Changed`].
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

/// Puts the table of messages back.
///
/// # Errors
///
/// [`KeeperError`].
pub(crate) fn put_back_table<M: Machine>(
    device: &Device<'_, M>,
    section: &StateSection<'_>,
) -> Result<(), KeeperError> {
    let entries = table(section)?;
    let config = device.machine.config(device.host);
    let table = pci::message_table(&config, device.function)?;
    let table = table.filter(|table| entries.len() <= table.entries.into());
    let table = table.ok_or(KeeperError::Changed(device.function))?;
    let window = window(device, &table)?;
    for (place, entry) in entries.iter().enumerate() {
        for (dword, value) in entry.iter().enumerate() {
            window.write32(place as u64 * ENTRY_BYTES + 4 * dword as u64, *value);
        }
    }
    Ok(())
}

/// Lets the function send messages as it did.
pub(crate) fn announce<M: Machine>(device: &Device<'_, M>, registers: &[SavedRegister]) {
    let config = device.machine.config(device.host);
    pci::put_back_interrupts(&config, device.function, registers);
}

/// Has every function of a host bridge answer nowhere and reach nothing.
pub(crate) fn switch_off(config: &impl ConfigSpace, functions: &[pci::Listed]) {
    for listed in functions.iter().rev() {
        pci::switch_off(config, listed.function);
    }
}
