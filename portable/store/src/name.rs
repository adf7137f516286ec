use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// The length of the longest name in bytes.
pub const NAME_BYTES: usize = 32;

/// A snapshot's name: up to [`NAME_BYTES`] printable ASCII characters, without blanks at
/// either end. It may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name([u8; NAME_BYTES]);

/// The text is not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a name: up to {NAME_BYTES} printable ASCII characters, without a blank at either end")]
pub struct NotAName;

impl Name {
    /// The empty name.
    pub const NONE: Name = Name([0; NAME_BYTES]);

    /// Returns whether the name is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Name::NONE
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// The name's bytes on a medium: padded with zeros.
    pub(crate) fn bytes(self) -> [u8; NAME_BYTES] {
        self.0
    }

    /// The name with these bytes on a medium, if they are valid.
    pub(crate) fn from_bytes(bytes: [u8; NAME_BYTES]) -> Option<Name> {
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(NAME_BYTES);
        let name: Name = core::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
        (name.0 == bytes).then_some(name)
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Name, NotAName> {
        let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !printable || text.trim() != text {
            return Err(NotAName);
        }
        let mut bytes = [0; NAME_BYTES];
        let room = bytes.get_mut(..text.len()).ok_or(NotAName)?;
        room.copy_from_slice(text.as_bytes());
        Ok(Name(bytes))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [" a", "a ", "a\tb", "a\0", "\u{e4}", &"x".repeat(33)] {
            assert_eq!(text.parse::<Name>(), Err(NotAName), "{text:?}");
        }
        for text in ["", "a", "kiosk, 2nd floor", &"x".repeat(32)] {
            assert_eq!(format!("{}", text.parse::<Name>().unwrap()), *text);
        }
        assert!(Name::NONE.is_empty() && Name::default().is_empty());
    }

    proptest! {
        #[test]
        fn names_come_back(bytes: [u8; NAME_BYTES], text in "[ -~]{0,40}") {
            if let Some(name) = Name::from_bytes(bytes) {
                prop_assert_eq!(name.bytes(), bytes);
            }
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(Name::from_bytes(name.bytes()), Some(name));
                prop_assert_eq!(String::from(name.as_str()), text);
            }
        }
    }
}
