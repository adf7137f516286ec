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

/// A row of LightPC's table II.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The workload's name there.
    pub name: &'static str,
    /// Reads of memory over writes.
    pub ratio: f64,
    /// Of 100 loads and 100 stores, those that hit the data cache.
    pub hits: [f64; 2],
}

/// A program of the guest for traces (`guest/workloads`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Program {
    /// The name that users give.
    pub name: &'static str,
    /// Its work.
    pub about: &'static str,
    /// Debian's package that has it; `None`: a program of `guest/stand-ins`.
    pub package: Option<&'static str>,
    /// The workload of LightPC that it is, or stands for; `None`: a kernel of STREAM.
    pub row: Option<Row>,
    /// Harts of its usual machine: eight, if LightPC's table II calls it multithreaded.
    pub harts: u32,
    /// Its processes.
    pub processes: Processes,
    /// Its command line: a script of `guest/workloads/bin`, and the script's words.
    pub command: &'static [&'static str],
}

const fn row(name: &'static str, ratio: f64, hits: [f64; 2]) -> Row {
    Row { name, ratio, hits }
}

/// All programs, by their names. Help, lists and errors take the names from here. No program ends
/// before its window is full.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "aes",
        about: "OpenSSL encrypts 16 KiB by AES-256-CBC, again and again",
        package: Some("openssl"),
        row: Some(row("AES", 4.8, [99.5, 98.9])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-openssl", "-evp", "aes-256-cbc"],
    },
    Program {
        name: "arcs",
        about: "a stand-in: pricing of a network's arcs, from one to the next",
        package: None,
        row: Some(row("mcf", 345.0, [93.4, 95.5])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-stand-in", "arcs"],
    },
    Program {
        name: "astar",
        about: "a stand-in: A* searches on a grid",
        package: None,
        row: Some(row("astar", 2.7, [96.2, 98.7])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-stand-in", "astar"],
    },
    Program {
        name: "bzip2",
        about: "bzip2 compresses 2 MiB of text, again and again",
        package: Some("bzip2"),
        row: Some(row("bzip2", 2.6, [94.6, 54.4])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-bzip2"],
    },
    Program {
        name: "cc1",
        about: "gcc's compiler proper compiles a C file of 40 functions, again and again",
        package: Some("cpp-14-riscv64-linux-gnu"),
        row: Some(row("gcc", 4.4, [99.0, 98.4])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-cc1"],
    },
    Program {
        name: "cg",
        about: "a stand-in: conjugate gradients with a sparse matrix",
        package: None,
        row: Some(row("miniFE", 11.0, [93.3, 99.4])),
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "cg"],
    },
    Program {
        name: "columns",
        about: "a stand-in: a weather model's winds and columns",
        package: None,
        row: Some(row("wrf", 4.3, [96.2, 94.2])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-stand-in", "columns"],
    },
    Program {
        name: "elements",
        about: "a stand-in: assembly of finite elements",
        package: None,
        row: Some(row("dealII", 13.0, [75.8, 97.5])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-stand-in", "elements"],
    },
    Program {
        name: "leapfrog",
        about: "a stand-in: six coupled wave equations on a grid",
        package: None,
        row: Some(row("cactusADM", 12.0, [96.1, 94.1])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-stand-in", "leapfrog"],
    },
    Program {
        name: "memcached",
        about: "memcached answers four readers and a writer of 20,000 keys",
        package: Some("memcached"),
        row: Some(row("Memcached", 6.2, [95.3, 98.5])),
        harts: 8,
        processes: Processes::One,
        command: &["run-memcached"],
    },
    Program {
        name: "multigrid",
        about: "a stand-in: multigrid cycles on five grids",
        package: None,
        row: Some(row("AMG", 11.0, [84.1, 89.8])),
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "multigrid"],
    },
    Program {
        name: "perl",
        about: "a Perl script parses, counts, replaces and sorts words of mails",
        package: Some("perl-base"),
        row: Some(row("perlbench", 6.1, [80.2, 81.3])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-perl"],
    },
    Program {
        name: "redis",
        about: "redis answers four readers and a writer of 20,000 keys",
        package: Some("redis-server"),
        row: Some(row("Redis", 6.2, [97.9, 99.1])),
        harts: 8,
        processes: Processes::One,
        command: &["run-redis", "redis"],
    },
    Program {
        name: "sha512",
        about: "OpenSSL hashes 16 KiB by SHA-512, again and again",
        package: Some("openssl"),
        row: Some(row("SHA512", 14.0, [99.9, 99.9])),
        harts: 1,
        processes: Processes::EachHart,
        command: &["run-openssl", "sha512"],
    },
    Program {
        name: "sqlite3",
        about: "SQLite reads and changes random rows of a table of 50,000",
        package: Some("sqlite3"),
        row: Some(row("SQLite", 13.0, [78.1, 98.4])),
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-sqlite3"],
    },
    Program {
        name: "streamadd",
        about: "STREAM's add: c = a + b",
        package: None,
        row: None,
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "streamadd"],
    },
    Program {
        name: "streamcopy",
        about: "STREAM's copy: c = a",
        package: None,
        row: None,
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "streamcopy"],
    },
    Program {
        name: "streamscale",
        about: "STREAM's scale: b = s c",
        package: None,
        row: None,
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "streamscale"],
    },
    Program {
        name: "streamtriad",
        about: "STREAM's triad: a = b + s c",
        package: None,
        row: None,
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "streamtriad"],
    },
    Program {
        name: "sweep",
        about: "a stand-in: sweeps of discrete ordinates over cells",
        package: None,
        row: Some(row("SNAP", 2.7, [97.9, 99.0])),
        harts: 8,
        processes: Processes::EachHart,
        command: &["run-stand-in", "sweep"],
    },
    Program {
        name: "valkey",
        about: "valkey answers as redis does; it stands for KeyDB",
        package: Some("valkey-server"),
        row: Some(row("KeyDB", 2.6, [97.7, 99.0])),
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
    use std::fs;
    use std::path::Path;

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

    /// The guest has each program's script, and each program without a package.
    #[test]
    fn the_guest_has_each_program() {
        let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest");
        let programs = fs::read_to_string(guest.join("stand-ins/src/lib.rs")).unwrap();
        let lines = programs.lines().filter(|line| line.starts_with("    (\""));
        let stand_ins: Vec<_> = lines.filter_map(|line| line.split('"').nth(1)).collect();
        for program in PROGRAMS {
            let script = guest.join("workloads/bin").join(program.command[0]);
            assert!(script.is_file(), "{}", script.display());
            let is_ours = stand_ins.contains(&program.name);
            assert_eq!(is_ours, program.package.is_none(), "{}", program.name);
            assert!(!is_ours || program.command[1] == program.name);
        }
        let ours = PROGRAMS.iter().filter(|one| one.package.is_none());
        assert_eq!(ours.count(), stand_ins.len());
        let rows = PROGRAMS.iter().filter(|one| one.row.is_some());
        assert_eq!(rows.count(), 17, "table II's workloads");
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
