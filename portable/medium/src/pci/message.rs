//! Interrupts as messages (PCI Express base specification, 6.1.4).

use super::register::{MSI, MSI_ENABLE, MSI_X, MSI_X_ENABLE};
use super::{ConfigSpace, Function, PciError, capability};

/// A message: what is written, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The address.
    pub address: u64,
    /// What is written there.
    pub data: u32,
}

/// How a function sends interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// By a pin, or not at all.
    None,
    /// One message; further ones differ in the data's lowest bits (MSI).
    One(Message),
    /// Those of a table in the function's memory (MSI-X).
    Table(MessageTable),
}

/// Where a function's messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTable {
    /// The BAR.
    pub bar: u8,
    /// Bytes from there.
    pub offset: u64,
    /// Messages in the table, 1 to 2048.
    pub entries: u16,
}

/// Bits of MSI's control that say that addresses have 64 bits.
const MSI_WIDE: u32 = 1 << 23;

/// The table of a function's messages, whether it sends them or not; `None` where it has
/// none.
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

/// How a function sends interrupts.
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
