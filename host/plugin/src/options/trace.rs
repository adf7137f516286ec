//! What the plugin traces, as arguments name it.

use std::path::PathBuf;
use std::str::FromStr;

use poorwill_trace::Digest;

use super::argument::{Argument, OptionError};

/// The default length of the window, in instructions.
const USUAL_INSTRUCTIONS: u64 = 100_000_000;

/// What is traced, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// `trace`: the file, which appears only once the window is full.
    pub file: PathBuf,
    /// `trace-skip`: instructions of the busiest hart from the mark to the window. The caches fill
    /// meanwhile.
    pub skip: u64,
    /// `trace-instructions`: length of the window, in instructions of the busiest hart.
    pub instructions: u64,
    /// `trace-guest`: digest of the guest, for the trace's header.
    pub guest: Digest,
    /// `trace-program`: digest of the program, likewise.
    pub program: Digest,
}

impl TraceOptions {
    pub(super) fn to(file: PathBuf) -> Self {
        TraceOptions {
            file,
            skip: 0,
            instructions: USUAL_INSTRUCTIONS,
            guest: Digest::default(),
            program: Digest::default(),
        }
    }

    /// Reads one of the arguments beside `trace`.
    pub(super) fn set(&mut self, argument: &Argument<'_>) -> Result<(), OptionError> {
        match argument.key {
            "trace-skip" => self.skip = argument.number()?,
            "trace-instructions" => self.instructions = argument.positive()?,
            "trace-guest" => self.guest = digest(argument)?,
            "trace-program" => self.program = digest(argument)?,
            other => return Err(OptionError::Unknown(other.into())),
        }
        Ok(())
    }
}

fn digest(argument: &Argument<'_>) -> Result<Digest, OptionError> {
    Digest::from_str(argument.value).map_err(|_| argument.malformed("64 hexadecimal digits"))
}
