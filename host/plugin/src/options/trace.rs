//! What the plugin traces, as arguments name it.

use std::path::PathBuf;
use std::str::FromStr;

use poorwill_trace::Digest;

use super::argument::{Argument, OptionError};

/// The default length of the window, in instructions.
const USUAL_INSTRUCTIONS: u64 = 100_000_000;

/// The part of a run that is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceSpan {
    /// `program`: the window after a mark.
    #[default]
    Program,
    /// `stop`: from the power-fail line to the power-off. The caches fill from the power-on.
    Stop,
    /// `go`: from the power-on to the signal, at which QEMU ends.
    Go,
}

/// What is traced, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// `trace`: the file, which appears only once the window is full.
    pub file: PathBuf,
    /// `trace-of`: the part of the run.
    pub span: TraceSpan,
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
            span: TraceSpan::default(),
            skip: 0,
            instructions: USUAL_INSTRUCTIONS,
            guest: Digest::default(),
            program: Digest::default(),
        }
    }

    /// Reads one of the arguments beside `trace`.
    pub(super) fn set(&mut self, argument: &Argument<'_>) -> Result<(), OptionError> {
        match argument.key {
            "trace-of" => {
                self.span = match argument.value {
                    "program" => TraceSpan::Program,
                    "stop" => TraceSpan::Stop,
                    "go" => TraceSpan::Go,
                    _ => return Err(argument.malformed("program, stop or go")),
                }
            }
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
