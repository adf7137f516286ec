//! Addresses on the command line.

/// Parses a decimal or hexadecimal address.
pub(super) fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("{error}; write 0x80000000, for example"))
}
