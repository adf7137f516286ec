//! Runs a trace on a model of memory.

use std::fs::File;
use std::io::Read;

use poorwill_oc_pmem::{Machine, Outcome, Parameters};
use poorwill_trace::{Header, Kind};

use super::error::TracesError;
use super::library::Found;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// A machine's result.
#[derive(Clone, Debug)]
pub struct Run {
    /// The machine.
    pub machine: Machine,
    /// What the model says.
    pub outcome: Outcome,
}

/// Runs a trace on a machine. `watch` wraps the trace's file, for a progress bar.
///
/// # Errors
///
/// The trace is damaged.
pub fn run<'w, R: Read + 'w>(
    found: &Found,
    machine: Machine,
    parameters: &Parameters,
    watch: impl FnOnce(File) -> R,
) -> Result<Run, TracesError> {
    let outcome = poorwill_trace::run(found.open(watch)?, machine, parameters, None);
    let outcome = outcome.map_err(|reason| found.refused(reason))?;
    Ok(Run { machine, outcome })
}

/// The base point with the memory of the machine that was traced.
///
/// # Errors
///
/// The model has no memory of that size.
pub fn parameters_of(header: &Header) -> Result<Parameters, TracesError> {
    let mut parameters = Parameters::default();
    let mib = header.setting.memory.div_ceil(MIB);
    parameters
        .set(&format!("memory={mib}"))
        .map_err(TracesError::Memory)?;
    Ok(parameters)
}

/// Number of a trace's records, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub loads: u64,
    pub stores: u64,
    pub fetches: u64,
    pub write_backs: u64,
    pub flushes: u64,
    pub fences: u64,
}

/// Reads all of a trace, and counts its records.
///
/// # Errors
///
/// The trace is damaged.
pub fn account(found: &Found) -> Result<(Header, Account), TracesError> {
    let mut reader = found.open(|file| file)?;
    let mut account = Account::default();
    let refused = |reason| found.refused(reason);
    while let Some(record) = reader.next_record().map_err(refused)? {
        *match record.kind {
            Kind::Load => &mut account.loads,
            Kind::Store => &mut account.stores,
            Kind::Fetch => &mut account.fetches,
            Kind::WriteBack => &mut account.write_backs,
            Kind::Flush => &mut account.flushes,
            Kind::Fence => &mut account.fences,
        } += 1;
    }
    Ok((reader.header().clone(), account))
}
