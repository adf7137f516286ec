//! QEMU's version, and whether the plugin supports it.

use std::ffi::{c_char, c_void};
use std::fmt;

use thiserror::Error;

use super::symbols::{MissingSymbol, functions};

/// QEMU's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: i64,
    pub(crate) minor: i64,
    pub(crate) micro: i64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

/// Why this QEMU is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum VersionError {
    #[error("this is QEMU {found}, but the plugin uses internals of 10.0.x: start that version")]
    Unknown { found: Version },
    #[error("this QEMU emulates {found}: start qemu-system-riscv64")]
    Target { found: String },
    #[error("QEMU's version is unknown, and 10.0.x is needed: {0}")]
    Untold(#[from] MissingSymbol),
}

functions! {
    /// QEMU's function for its version. It is the same in many versions.
    struct Query {
        fn qmp_query_version(*mut *mut c_void) -> *const VersionInfo;
    }
}

#[repr(C)]
struct VersionInfo {
    triple: *const Triple,
    package: *const c_char,
}

#[repr(C)]
struct Triple {
    major: i64,
    minor: i64,
    micro: i64,
}

/// QEMU's version, as QEMU reports it.
pub(crate) fn version() -> Result<Version, VersionError> {
    let query = Query::find()?;
    // SAFETY: the command has no argument and cannot fail, so it needs no place for an error. Its
    // answer is two filled structures, which are never freed here.
    let triple = unsafe {
        let info = (query.qmp_query_version)(std::ptr::null_mut());
        &*(*info).triple
    };
    Ok(Version {
        major: triple.major,
        minor: triple.minor,
        micro: triple.micro,
    })
}

/// Checks that the plugin supports this version, and that QEMU emulates a whole RISC-V machine.
pub(crate) fn check(found: Version, target: &str, is_system: bool) -> Result<(), VersionError> {
    if (found.major, found.minor) != (10, 0) {
        return Err(VersionError::Unknown { found });
    }
    if target != "riscv64" || !is_system {
        return Err(VersionError::Target {
            found: target.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Version = Version {
        major: 10,
        minor: 0,
        micro: 2,
    };

    #[test]
    fn an_unknown_version_is_refused_by_its_name() {
        assert_eq!(check(KNOWN, "riscv64", true), Ok(()));
        for (major, minor) in [(10, 1), (9, 2), (11, 0)] {
            let found = Version {
                major,
                minor,
                micro: 5,
            };
            let refused = check(found, "riscv64", true).expect_err("unknown");
            let expected = format!("this is QEMU {major}.{minor}.5, but");
            assert!(refused.to_string().starts_with(&expected));
        }
    }

    #[test]
    fn another_machine_is_refused() {
        assert!(check(KNOWN, "x86_64", true).is_err());
        assert!(check(KNOWN, "riscv64", false).is_err());
    }
}
