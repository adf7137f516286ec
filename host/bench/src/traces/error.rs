use std::io;
use std::path::PathBuf;

use poorwill_oc_pmem::ParameterError;
use poorwill_trace::TraceError;
use thiserror::Error;

/// Why a trace cannot be recorded or used.
#[derive(Debug, Error)]
pub enum TracesError {
    /// There is no such program.
    #[error("there is no program `{name}`; there are {known}")]
    NoProgram {
        /// The given name.
        name: String,
        /// All names.
        known: String,
    },
    /// A name that is neither a trace nor a program.
    #[error(
        "`{name}` is neither a file nor a trace; programs to record are {known}, with -N for N harts"
    )]
    Unknown {
        /// The given name.
        name: String,
        /// All programs.
        known: String,
    },
    /// The trace was not recorded yet.
    #[error("there is no trace of {name}: record it with `{remedy}`")]
    NotRecorded {
        /// The trace's name.
        name: String,
        /// The command.
        remedy: String,
    },
    /// The trace was recorded with another guest or command line.
    #[error("the trace {name} is of another {of}: record it again with `{remedy}`")]
    Other {
        /// The trace's name.
        name: String,
        /// Guest or command line.
        of: &'static str,
        /// The command.
        remedy: String,
    },
    /// The file cannot be opened.
    #[error("the trace {file} cannot be opened: {reason}", file = .file.display())]
    File {
        /// The trace.
        file: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file is damaged, or no trace.
    #[error("the trace {file} is refused: {reason}; {remedy}", file = .file.display())]
    Damaged {
        /// The trace.
        file: PathBuf,
        /// The reader's reason.
        reason: TraceError,
        /// What to do.
        remedy: String,
    },
    /// The traced machine's memory is beyond the model's.
    #[error("the traced machine is beyond the model: {0}; choose another with --set memory=MIB")]
    Memory(ParameterError),
    /// The guest has no digests.
    #[error("the guest has no manifest: build it with `tools/guest`")]
    NoManifest,
    /// The guest was built without a package.
    #[error(
        "the guest lacks the program {program}: its package {package} was not in the archive; `tools/guest --rebuild` tries again"
    )]
    NoPackage {
        /// The program.
        program: &'static str,
        /// Its package.
        package: &'static str,
    },
    /// The machine ended without a trace.
    #[error(
        "no trace of {program} was recorded ({status}): {errors}\nthe console's last lines:\n{console}"
    )]
    NotComplete {
        /// The program.
        program: &'static str,
        /// QEMU's exit status.
        status: std::process::ExitStatus,
        /// QEMU's standard error.
        errors: String,
        /// The end of the console's output.
        console: String,
    },
}
