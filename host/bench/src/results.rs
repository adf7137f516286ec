//! The file with a bench's results: all figures, and the conditions of their measurement.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use poorwill_machine::disk::temporary_beside;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::appliance::Appliance;
use crate::compare::Comparison;
use crate::cut::Cuts;
use crate::domains::Domains;
use crate::executor::Executor;
use crate::host::Environment;
use crate::instructions::Count;
use crate::targets::{Target, targets};
use crate::{CounterRead, NotMeasured, Sealing, Start};

/// Identifies the file's format.
pub const SCHEMA: &str = "poorwill-bench";

/// The version of the format. It rises when a field is removed or changes its meaning. A new field
/// has a default value, and does not change the version. Version 1 also had the field `load`. It is
/// read, too: its other fields are the same.
pub const SCHEMA_VERSION: u32 = 2;

/// All figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub schema_version: u32,
    pub environment: Environment,
    /// Power-on to the next stage, compared with OpenSBI.
    #[serde(default)]
    pub start: Vec<Start>,
    /// Emulated reads of counters, compared with OpenSBI's.
    #[serde(default)]
    pub counters: Vec<CounterRead>,
    /// The cost of sealing.
    #[serde(default)]
    pub seal: Vec<Sealing>,
    /// The firmware's instruction counts.
    #[serde(default)]
    pub instructions: Vec<Count>,
    /// Poorwill and its peers, on the same machines.
    #[serde(default)]
    pub compare: Option<Comparison>,
    /// Snapshot boot.
    #[serde(default)]
    pub appliance: Option<Appliance>,
    /// Wakes of domains.
    #[serde(default)]
    pub domains: Option<Domains>,
    /// Stop and Go of machines with persistent memory.
    #[serde(default)]
    pub cut: Option<Cuts>,
    /// A weak core.
    #[serde(default)]
    pub executor: Option<Executor>,
    /// Measurements that failed, with the reasons.
    #[serde(default)]
    pub not_had: Vec<NotMeasured>,
    /// The targets, and whether the figures meet them. They are computed at each write and read.
    #[serde(default, skip_deserializing)]
    pub targets: Vec<Target>,
}

/// Why there are no results.
#[derive(Debug, Error)]
pub enum ResultsError {
    #[error("cannot read {file}: {reason}", file = .file.display())]
    Read { file: PathBuf, reason: io::Error },
    #[error("cannot write {file}: {reason}", file = .file.display())]
    Write { file: PathBuf, reason: io::Error },
    #[error("{file} is not a result of `poorwill bench`: {reason}", file = .file.display())]
    Malformed { file: PathBuf, reason: String },
    #[error("{file} has schema version {found}, and this command reads 1 to {SCHEMA_VERSION}: \
             measure again, or use the `poorwill` that wrote it", file = .file.display())]
    Version { file: PathBuf, found: u32 },
}

/// The fields that each version starts with.
#[derive(Deserialize)]
struct Head {
    schema: String,
    schema_version: u32,
}

impl Results {
    /// Results without figures.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Results {
            schema: SCHEMA.into(),
            schema_version: SCHEMA_VERSION,
            environment,
            start: Vec::new(),
            counters: Vec::new(),
            seal: Vec::new(),
            instructions: Vec::new(),
            compare: None,
            appliance: None,
            domains: None,
            cut: None,
            executor: None,
            not_had: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Adds the figures of `others` that these results lack.
    pub fn add(&mut self, others: Results) {
        fn or<T>(own: &mut Vec<T>, other: Vec<T>) {
            if own.is_empty() {
                *own = other;
            }
        }
        or(&mut self.start, others.start);
        or(&mut self.counters, others.counters);
        or(&mut self.seal, others.seal);
        or(&mut self.instructions, others.instructions);
        self.compare = self.compare.take().or(others.compare);
        self.appliance = self.appliance.take().or(others.appliance);
        self.domains = self.domains.take().or(others.domains);
        self.cut = self.cut.take().or(others.cut);
        self.executor = self.executor.take().or(others.executor);
        self.conclude();
    }

    /// Computes which targets the figures meet.
    pub fn conclude(&mut self) {
        self.targets = targets(
            &self.environment,
            self.compare.as_ref(),
            self.appliance.as_ref(),
            self.domains.as_ref(),
            self.executor.as_ref(),
        );
    }

    /// The results as JSON.
    ///
    /// # Errors
    ///
    /// A figure is no number that JSON has.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Writes `file` as a whole: a reader sees the old contents or the new ones.
    ///
    /// # Errors
    ///
    /// [`ResultsError`].
    pub fn save(&self, file: &Path) -> Result<(), ResultsError> {
        let text = self.to_json().map_err(io::Error::other);
        text.and_then(|text| write_whole(file, text.as_bytes()))
            .map_err(|reason| ResultsError::Write {
                file: file.to_owned(),
                reason,
            })
    }

    /// Reads the results of [`save`](Self::save).
    ///
    /// # Errors
    ///
    /// [`ResultsError`].
    pub fn read(file: &Path) -> Result<Self, ResultsError> {
        let text = fs::read_to_string(file).map_err(|reason| ResultsError::Read {
            file: file.to_owned(),
            reason,
        })?;
        Self::parse(&text, file)
    }

    fn parse(text: &str, file: &Path) -> Result<Self, ResultsError> {
        let malformed = |reason: String| ResultsError::Malformed {
            file: file.to_owned(),
            reason,
        };
        let head: Head =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if head.schema != SCHEMA {
            return Err(malformed(format!("its schema is {:?}", head.schema)));
        }
        if !(1..=SCHEMA_VERSION).contains(&head.schema_version) {
            return Err(ResultsError::Version {
                file: file.to_owned(),
                found: head.schema_version,
            });
        }
        let mut results: Results =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        results.conclude();
        Ok(results)
    }
}

/// Writes a file beside `file` and renames it: a reader sees the old contents or the new ones.
///
/// # Errors
///
/// The system's error.
pub fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = temporary_beside(file, 0o644)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_data()?;
    temporary
        .persist(file)
        .map(drop)
        .map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Results, ResultsError> {
        Results::parse(text, Path::new("some.json"))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut results = Results::new(Environment {
            cores: 2,
            ..Environment::default()
        });
        results.conclude();
        assert_eq!(parse(&results.to_json().unwrap()).unwrap(), results);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        results.save(&file).unwrap();
        assert_eq!(Results::read(&file).unwrap(), results);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn later_files_add_what_earlier_ones_lack() {
        let appliance = |keys| {
            Some(Appliance {
                keys,
                ..Appliance::default()
            })
        };
        let mut results = crate::sample();
        let compare = results.compare.clone();
        let mut others = Results::new(Environment::default());
        others.appliance = appliance(1);
        results.add(others.clone());
        assert_eq!(
            (&results.compare, &results.appliance),
            (&compare, &appliance(1))
        );
        others.appliance = appliance(2);
        others.compare = None;
        results.add(others);
        assert_eq!(results.appliance, appliance(1));
    }

    #[test]
    fn other_files_are_refused_by_what_they_are() {
        let other = parse(r#"{"schema": "other", "schema_version": 1}"#).unwrap_err();
        assert!(other.to_string().contains("\"other\""), "{other}");
        let newer = parse(r#"{"schema": "poorwill-bench", "schema_version": 9, "more": 1}"#);
        let newer = newer.unwrap_err().to_string();
        assert!(
            newer.contains("version 9") && newer.contains("reads 1 to 2"),
            "{newer}"
        );
        assert!(matches!(parse("{"), Err(ResultsError::Malformed { .. })));
        let cut = parse(r#"{"schema": "poorwill-bench", "schema_version": 1}"#);
        assert!(matches!(cut, Err(ResultsError::Malformed { .. })));
        assert!(matches!(
            Results::read(Path::new("/nowhere.json")),
            Err(ResultsError::Read { .. })
        ));
    }
}
