//! The built-in profiles.

use super::profile::{Profile, ProfileError};

/// Names and texts of the built-in profiles.
pub const BUILT_IN: [(&str, &str); 7] = [
    (
        "thesis-1gib",
        include_str!("../../profiles/thesis-1gib.toml"),
    ),
    (
        "thesis-4gib",
        include_str!("../../profiles/thesis-4gib.toml"),
    ),
    (
        "thesis-8gib",
        include_str!("../../profiles/thesis-8gib.toml"),
    ),
    (
        "thesis-16gib",
        include_str!("../../profiles/thesis-16gib.toml"),
    ),
    (
        "jumpstart-dx1100",
        include_str!("../../profiles/jumpstart-dx1100.toml"),
    ),
    ("lightpc", include_str!("../../profiles/lightpc.toml")),
    ("d1-hart", include_str!("../../profiles/d1-hart.toml")),
];

/// The built-in profile of this name.
///
/// # Errors
///
/// [`ProfileError`].
pub fn profile(name: &str) -> Result<Profile, ProfileError> {
    match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((known, text)) => Profile::parse(text, known),
        None => Err(ProfileError::Unknown {
            name: name.to_owned(),
            known: BUILT_IN.map(|(name, _)| name).join(", "),
        }),
    }
}
