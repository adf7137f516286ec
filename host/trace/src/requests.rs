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
    /// Records that may still be read, and instructions that each hart executed in those that were;
    /// `None`: all records.
    part: Option<(u64, Vec<u64>)>,
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
            part: None,
            end: None,
        }
    }

    /// The first records of this trace, at most `count`. A hart ends with its last one among them.
    /// The later ones are not checked.
    #[must_use]
    pub fn first(reader: Reader<R>, count: u64) -> Self {
        let mut requests = Self::new(reader);
        requests.part = Some((count, vec![0; requests.waiting.len()]));
        requests
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
        if self.part.as_ref().is_some_and(|(left, _)| *left == 0) {
            self.end = Some(Ok(()));
            return None;
        }
        match self.reader.next_record() {
            Ok(Some(record)) => {
                if let Some((left, executed)) = &mut self.part {
                    *left -= 1;
                    executed[usize::from(record.hart)] += record.instructions;
                }
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

/// Runs a trace, or its first `count` records, on a machine. This function is compiled here, with
/// this crate's optimisation.
///
/// # Errors
///
/// [`TraceError`]: the trace is damaged.
pub fn run(
    reader: Reader<Box<dyn Read + '_>>,
    machine: Machine,
    parameters: &Parameters,
    count: Option<u64>,
) -> Result<Outcome, TraceError> {
    let mut requests = match count {
        Some(count) => Requests::first(reader, count),
        None => Requests::new(reader),
    };
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
        match &self.part {
            Some((_, executed)) => executed[hart],
            None => self.reader.header().harts[hart].instructions,
        }
    }
}
