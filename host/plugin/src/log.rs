//! The log: what harts do, in its order, as lines of JSON.

use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A hart's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It runs again after a wait for an interrupt. It may wait again at once.
    Runs,
    /// It is about to execute an instruction of `log-pc`.
    Executes { address: u64 },
    /// It has stored to a register of `log-stores`.
    Stores { address: u64, value: u64 },
    /// It has loaded from a register of `log-loads`.
    Loads { address: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub hart: usize,
    /// The hart's own time in nanoseconds of the fair time base.
    pub time: u64,
    /// Instructions of that hart so far.
    pub instructions: u64,
    pub what: What,
}

/// The log's file. Others may read it while the machine runs.
#[derive(Debug)]
pub(crate) struct Log {
    file: LineWriter<File>,
    /// The first failure; nothing is written after it.
    written: io::Result<()>,
}

impl Log {
    pub(crate) fn create(file: &Path) -> io::Result<Self> {
        Ok(Log {
            file: LineWriter::new(File::create(file)?),
            written: Ok(()),
        })
    }

    pub(crate) fn add(&mut self, entry: &Entry) {
        if self.written.is_ok() {
            self.written = self.write(entry);
        }
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, entry)?;
        self.file.write_all(b"\n")
    }

    /// Writes the rest. The log ends with it.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.written?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_line() {
        let folder = std::env::temp_dir().join(format!("plugin-log-{}", std::process::id()));
        let entry = |what| Entry {
            hart: 2,
            time: 3,
            instructions: 4,
            what,
        };
        let all = [
            entry(What::Runs),
            entry(What::Executes { address: 5 }),
            entry(What::Stores {
                address: 6,
                value: 7,
            }),
            entry(What::Loads { address: 8 }),
        ];
        let mut log = Log::create(&folder).expect("a file");
        all.iter().for_each(|entry| log.add(entry));
        log.end().expect("written");
        let text = std::fs::read_to_string(&folder).expect("text");
        std::fs::remove_file(&folder).expect("removed");
        let read = text.lines().map(serde_json::from_str::<Entry>);
        assert_eq!(read.collect::<Result<Vec<_>, _>>().expect("entries"), all);
    }
}
