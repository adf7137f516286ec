use arrayvec::ArrayVec;

use crate::error::LoadError;
use crate::items::{Item, Items};

/// Linux's limit for a command line: bytes, with the terminating zero.
pub const MAX_COMMAND_LINE: usize = 2048;

/// A kernel's command line with its terminating zero.
pub type CommandLine = ArrayVec<u8, MAX_COMMAND_LINE>;

/// Reads the command line; `None`: there is no `-append`.
///
/// # Errors
///
/// [`LoadError`].
pub fn command_line(items: &mut impl Items) -> Result<Option<CommandLine>, LoadError> {
    let length = items.length(Item::CommandLine)?;
    if length == 0 {
        return Ok(None);
    }
    let mut bytes = [0; MAX_COMMAND_LINE];
    let place = bytes.get_mut(..length as usize);
    let place = place.ok_or(LoadError::CommandLine(length, MAX_COMMAND_LINE))?;
    items.read(Item::CommandLine, place)?;
    let is_text = place.iter().position(|byte| *byte == 0);
    // Without a zero in the buffer, the line is longer than the buffer, and its end is missing.
    let end = is_text.ok_or(LoadError::Truncated(Item::CommandLine, length))?;
    Ok(Some(bytes.into_iter().take(end + 1).collect()))
}
