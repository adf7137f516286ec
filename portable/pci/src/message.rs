//! Message-signalled interrupts (PCI Express base specification, 6.1.4).

use super::register::{MSI, MSI_ENABLE, MSI_X, MSI_X_ENABLE};
use super::{ConfigSpace, Function, PciError, capability};

/// An interrupt message: a write to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The address of the write.
    pub address: u64,
    /// The value of the write.
    pub data: u32,
}

/// How a function sends interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// A pin, or no interrupts.
    None,
    /// One message; further ones differ in the lowest bits of the data (MSI).
    One(Message),
    /// The messages of a table in the function's memory (MSI-X).
    Table(MessageTable),
}

/// The place of a function's message table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTable {
    /// The number of the BAR.
    pub bar: u8,
    /// The offset in bytes from the start of the BAR.
    pub offset: u64,
    /// The number of messages, 1 to 2048.
    pub entries: u16,
}

/// The bit of MSI's control for 64-bit addresses.
const MSI_WIDE: u32 = 1 << 23;

/// The function's message table, enabled or not; `None` if it has no table.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
#[allow(clippy::cast_possible_truncation, reason = "fields of registers")]
pub fn message_table(
    config: &impl ConfigSpace,
    function: Function,
) -> Result<Option<MessageTable>, PciError> {
    let Some(msi_x) = capability::find(config, function, MSI_X)? else {
        return Ok(None);
    };
    let control = config.read32(function, msi_x);
    let table = config.read32(function, msi_x + 4);
    Ok(Some(MessageTable {
        bar: (table & 7) as u8,
        offset: u64::from(table & !7),
        entries: (control >> 16 & 0x7ff) as u16 + 1,
    }))
}

/// How a function sends interrupts now.
///
/// # Errors
///
/// [`PciError::CapabilityList`].
pub fn messages(config: &impl ConfigSpace, function: Function) -> Result<Messages, PciError> {
    if let Some(msi_x) = capability::find(config, function, MSI_X)?
        && config.read32(function, msi_x) & MSI_X_ENABLE != 0
    {
        let table = message_table(config, function)?;
        return Ok(table.map_or(Messages::None, Messages::Table));
    }
    let Some(msi) = capability::find(config, function, MSI)? else {
        return Ok(Messages::None);
    };
    let control = config.read32(function, msi);
    if control & MSI_ENABLE == 0 {
        return Ok(Messages::None);
    }
    let low = u64::from(config.read32(function, msi + 4));
    let (high, data) = if control & MSI_WIDE != 0 {
        let high = u64::from(config.read32(function, msi + 8));
        (high << 32, config.read32(function, msi + 12))
    } else {
        (0, config.read32(function, msi + 8))
    };
    Ok(Messages::One(Message {
        address: high | low,
        data: data & 0xffff,
    }))
}
