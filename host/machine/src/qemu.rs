use std::env;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// A version of QEMU, major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

/// The oldest accepted QEMU: versions before it lack parts of AIA.
pub const MINIMUM: Version = Version(8, 2);

/// The oldest QEMU that the tests use.
pub const RECOMMENDED: Version = Version(10, 0);

const PROGRAM: &str = "qemu-system-riscv64";

const INSTALL: &str = "as root, run `tools/setup`, or `apt-get install qemu-system-riscv` \
                       (on Debian 12 from bookworm-backports)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    pub program: PathBuf,
    pub version: Version,
}

/// Why there is no usable QEMU.
#[derive(Debug, Error)]
pub enum QemuError {
    #[error("no {PROGRAM} in PATH: {INSTALL}")]
    Missing,
    #[error("{program} --version {reason}; {INSTALL}, or set POORWILL_QEMU to another", program = .program.display())]
    Unusable { program: PathBuf, reason: String },
    #[error("{program} is version {version}, but {MINIMUM} or later is needed: {INSTALL}", program = .program.display())]
    TooOld { program: PathBuf, version: Version },
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// Parses QEMU's answer to `--version`.
    fn parse(answer: &str) -> Option<Self> {
        let numbers = answer.split("QEMU emulator version ").nth(1)?;
        let mut parts = numbers.split(|c: char| !c.is_ascii_digit());
        Some(Version(
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
        ))
    }
}

impl Qemu {
    /// Finds QEMU: `$POORWILL_QEMU`, else `qemu-system-riscv64` in PATH.
    ///
    /// # Errors
    ///
    /// [`QemuError`]: missing, unusable, or older than [`MINIMUM`].
    pub fn find() -> Result<Self, QemuError> {
        let program = match env::var_os("POORWILL_QEMU").filter(|value| !value.is_empty()) {
            Some(named) => PathBuf::from(named),
            None => in_path(PROGRAM).ok_or(QemuError::Missing)?,
        };
        let version = ask_version(&program)?;
        if version < MINIMUM {
            return Err(QemuError::TooOld { program, version });
        }
        Ok(Qemu { program, version })
    }
}

fn ask_version(program: &Path) -> Result<Version, QemuError> {
    let unusable = |reason: String| QemuError::Unusable {
        program: program.to_owned(),
        reason,
    };
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error: io::Error| unusable(format!("does not start ({error})")))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    Version::parse(&answer).ok_or_else(|| unusable("prints no version of QEMU".into()))
}

/// The first executable file called `name` in PATH.
#[must_use]
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| {
            use std::os::unix::fs::PermissionsExt;
            file.metadata()
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright";
        assert_eq!(Version::parse(debian), Some(Version(10, 0)));
        assert_eq!(
            Version::parse("QEMU emulator version 7.2.19"),
            Some(Version(7, 2))
        );
        assert_eq!(Version::parse("bash 5.2"), None);
        assert_eq!(Version::parse("QEMU emulator version x"), None);
        assert!(Version(7, 2) < MINIMUM && MINIMUM < Version(10, 0) && Version(8, 2) >= MINIMUM);
    }
}
