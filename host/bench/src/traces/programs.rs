//! The programs whose traces can be recorded.

use poorwill_trace::Digest;
use sha2::{Digest as _, Sha256};

use super::error::TracesError;

/// A program of the guest for traces (`guest/workloads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name that users give.
    pub name: &'static str,
    /// Its work.
    pub about: &'static str,
    /// Debian's package that has it.
    pub package: &'static str,
    /// Harts of its usual machine. Each executes a process of the program.
    pub harts: u32,
    /// Its command line.
    pub command: &'static [&'static str],
}

/// All programs. Help, lists and errors take their names from here.
///
/// `openssl speed` works on one buffer, and would end long after the window.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "aes",
        about: "OpenSSL encrypts 16 KiB by AES-256-CBC, again and again",
        package: "openssl",
        harts: 1,
        command: &[
            "openssl",
            "speed",
            "-elapsed",
            "-seconds",
            "3600",
            "-bytes",
            "16384",
            "-evp",
            "aes-256-cbc",
        ],
    },
    Program {
        name: "sha512",
        about: "OpenSSL hashes 16 KiB by SHA-512, again and again",
        package: "openssl",
        harts: 1,
        command: &[
            "openssl", "speed", "-elapsed", "-seconds", "3600", "-bytes", "16384", "sha512",
        ],
    },
];

impl Program {
    /// The program of that name.
    ///
    /// # Errors
    ///
    /// [`TracesError::NoProgram`].
    pub fn named(name: &str) -> Result<&'static Self, TracesError> {
        let found = PROGRAMS.iter().find(|program| program.name == name);
        found.ok_or_else(|| TracesError::NoProgram {
            name: name.to_owned(),
            known: names(),
        })
    }

    /// The digest of its name and its command line.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for word in [&self.name].into_iter().chain(self.command) {
            hash.update(word.as_bytes());
            hash.update([0]);
        }
        Digest(hash.finalize().into())
    }

    /// The name of its trace on a machine with that number of harts.
    #[must_use]
    pub fn trace_name(&self, harts: u32) -> String {
        match harts == self.harts {
            true => self.name.to_owned(),
            false => format!("{}-{harts}", self.name),
        }
    }

    /// The program and the harts of a trace of that name.
    #[must_use]
    pub fn of_trace(name: &str) -> Option<(&'static Self, u32)> {
        if let Ok(program) = Self::named(name) {
            return Some((program, program.harts));
        }
        let (program, harts) = name.rsplit_once('-')?;
        let program = Self::named(program).ok()?;
        let harts = harts.parse().ok()?;
        (program.trace_name(harts) == name).then_some((program, harts))
    }
}

/// The names of all programs, for an error.
#[must_use]
pub fn names() -> String {
    let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_own_name_and_digest() {
        for (at, one) in PROGRAMS.iter().enumerate() {
            for other in &PROGRAMS[at + 1..] {
                assert!(one.name < other.name, "in order: {}", other.name);
                assert!(one.digest() != other.digest());
            }
            let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            assert!(one.name.chars().all(letters), "{}: no hyphen", one.name);
        }
    }

    #[test]
    fn a_traces_name_tells_program_and_harts() {
        for program in PROGRAMS {
            for harts in [1, 8] {
                let name = program.trace_name(harts);
                assert_eq!(Program::of_trace(&name), Some((program, harts)));
            }
        }
        for other in [
            "sha512-1",
            "sha512-",
            "sha512-x",
            "sha512-08",
            "md5",
            "md5-8",
            "",
        ] {
            assert_eq!(Program::of_trace(other), None, "{other}");
        }
    }
}
