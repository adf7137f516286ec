//! The programs whose traces can be recorded.

use poorwill_trace::Digest;
use sha2::{Digest as _, Sha256};

use super::error::TracesError;

/// How a program uses a machine's harts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Each hart has a process of its own.
    EachHart,
    /// The program spreads over the harts by itself.
    One,
}

/// A program of the guest for traces (`guest/workloads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name that users give.
    pub name: &'static str,
    /// Its work.
    pub about: &'static str,
    /// Debian's package that has it.
    pub package: &'static str,
    /// Harts of its usual machine: eight, if LightPC's table II calls it multithreaded.
    pub harts: u32,
    /// Its processes.
    pub processes: Processes,
    /// Its command line: a script of `guest/workloads/bin`, and the script's words.
    pub command: &'static [&'static str],
}

/// All programs, by their names. Help, lists and errors take the names from here. No program ends
/// before its window is full.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "aes",
        about: "OpenSSL encrypts 16 KiB by AES-256-CBC, again and again",
        package: "openssl",
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-openssl", "-evp", "aes-256-cbc"],
    },
    Program {
        name: "bzip2",
        about: "bzip2 compresses 2 MiB of text, again and again",
        package: "bzip2",
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-bzip2"],
    },
    Program {
        name: "perl",
        about: "a Perl script parses, counts, replaces and sorts words of mails",
        package: "perl-base",
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-perl"],
    },
    Program {
        name: "redis",
        about: "redis answers four readers and a writer of 20,000 keys",
        package: "redis-server",
        harts: 8,
        processes: Processes::One,
        command: &["run-redis", "redis"],
    },
    Program {
        name: "sha512",
        about: "OpenSSL hashes 16 KiB by SHA-512, again and again",
        package: "openssl",
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-openssl", "sha512"],
    },
    Program {
        name: "sqlite3",
        about: "SQLite reads and changes random rows of a table of 50,000",
        package: "sqlite3",
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-sqlite3"],
    },
    Program {
        name: "valkey",
        about: "valkey answers as redis does; it stands for KeyDB",
        package: "valkey-server",
        harts: 8,
        processes: Processes::One,
        command: &["run-redis", "valkey"],
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

    /// Number of processes that the guest starts on a machine with that number of harts.
    #[must_use]
    pub(super) fn started(&self, harts: u32) -> u32 {
        match self.processes {
            Processes::EachHart => harts,
            Processes::One => 1,
        }
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
