//! A trace's records for a model, each hart's apart.

use std::collections::VecDeque;
use std::io::Read;

use poorwill_oc_pmem::{Machine, Outcome, Parameters, Request, Source};

use crate::error::TraceError;
use crate::reader::Reader;

/// Requests from a trace. After a run, [`Requests::finish`] tells whether the trace was whole.
#[derive(Debug)]
pub struct Requests<R> {
    reader: Reader<R>,
    /// Requests that were read before their hart asked.
    waiting: Vec<VecDeque<Request>>,
    end: Option<Result<(), TraceError>>,
}

impl<R: Read> Requests<R> {
    /// The records of this trace, from its start.
    #[must_use]
    pub fn new(reader: Reader<R>) -> Self {
        let harts = reader.header().harts.len();
        Requests {
            reader,
            waiting: vec![VecDeque::new(); harts],
            end: None,
        }
    }

    /// Reads the rest.
    ///
    /// # Errors
    ///
    /// [`TraceError`]: no result of the run counts.
    pub fn finish(mut self) -> Result<(), TraceError> {
        while self.end.is_none() {
            self.read();
        }
        self.end.unwrap_or(Ok(()))
    }

    /// Reads a record, and keeps it for its hart.
    fn read(&mut self) -> Option<(usize, Request)> {
        match self.reader.next_record() {
            Ok(Some(record)) => {
                let request = Request {
                    kind: record.kind,
                    line: record.line,
                    instructions: record.instructions,
                };
                Some((record.hart.into(), request))
            }
            Ok(None) => {
                self.end = Some(Ok(()));
                None
            }
            Err(error) => {
                self.end = Some(Err(error));
                None
            }
        }
    }
}

/// Runs a trace on a machine. This function is compiled here, with this crate's optimisation.
///
/// # Errors
///
/// [`TraceError`]: the trace is damaged.
pub fn run(
    reader: Reader<Box<dyn Read + '_>>,
    machine: Machine,
    parameters: &Parameters,
) -> Result<Outcome, TraceError> {
    let mut requests = Requests::new(reader);
    let outcome = poorwill_oc_pmem::run(&mut requests, machine, parameters);
    requests.finish().map(|()| outcome)
}

impl<R: Read> Source for Requests<R> {
    fn harts(&self) -> usize {
        self.waiting.len()
    }

    fn next(&mut self, hart: usize) -> Option<Request> {
        if let Some(request) = self.waiting[hart].pop_front() {
            return Some(request);
        }
        while self.end.is_none() {
            let (other, request) = self.read()?;
            if other == hart {
                return Some(request);
            }
            self.waiting[other].push_back(request);
        }
        None
    }

    fn instructions(&self, hart: usize) -> u64 {
        self.reader.header().harts[hart].instructions
    }
}
