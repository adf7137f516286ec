//! `poorwill run --cut`: a machine with a memory file, whose power may fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use humantime::{FormattedDuration, format_duration};
use poorwill_machine::cut::{Ending, RecordReport, RecordState, look};
use poorwill_machine::{Clock, Machine, PowerSupply, paths};

#[derive(Args, Clone, Debug)]
pub(super) struct PowerArguments {
    /// Model persistent memory: after a power failure (`poorwill psu fail FILE`) the same command
    /// resumes the machine where it was cut
    #[arg(long, requires = "ram")]
    pub(super) cut: bool,
    /// File with the machine's memory; created if missing
    #[arg(long, value_name = "FILE", requires = "cut")]
    pub(super) ram: Option<PathBuf>,
    /// Time from the power failure to the loss of power, such as 16ms or 100us
    #[arg(long, value_name = "DURATION", requires = "cut", default_value = "16ms", value_parser = humantime::parse_duration)]
    hold_up: Duration,
    /// Clock of the modelled machine in GHz; it converts the hold-up to instructions, at 0.66
    /// instructions a cycle
    #[arg(long, value_name = "GHZ", requires = "cut", default_value = "0.4")]
    clock: Clock,
}

impl PowerArguments {
    /// The machine's power supply; `None`: the power does not fail.
    pub(super) fn supply(&self) -> anyhow::Result<Option<PowerSupply>> {
        if !self.cut {
            return Ok(None);
        }
        Ok(Some(PowerSupply {
            hold_up: self.hold_up,
            clock: self.clock,
            plugin: paths::plugin()?,
            loader: paths::loader()?,
        }))
    }
}

/// A run of a machine with a power supply.
pub(super) struct CutRun<'m> {
    ram: &'m Path,
    supply: &'m PowerSupply,
    before: Vec<RecordReport>,
}

impl<'m> CutRun<'m> {
    /// Reads the machine's memory file, and announces a cut that is in it. `None`: the machine has
    /// no power supply.
    pub(super) fn begin(machine: &'m Machine) -> anyhow::Result<Option<Self>> {
        let (Some(ram), Some(supply)) = (machine.ram.as_deref(), &machine.power_supply) else {
            return Ok(None);
        };
        // A file of another length is not read: the machine's start refuses it. A missing file is
        // created there.
        let length = machine.memory.in_mib() << 20;
        let fits = fs::metadata(ram).is_ok_and(|data| data.is_file() && data.len() == length);
        let before = if fits { look(ram)? } else { Vec::new() };
        if let Some(other) = misfit(&before, machine.harts) {
            bail!(
                "the cut in {ram} is of a machine with {other} harts: give --harts {other}, or discard it with `poorwill cut discard {ram}`",
                ram = ram.display()
            );
        }
        (before.iter()).for_each(|record| announce(ram, record));
        Ok(Some(CutRun {
            ram,
            supply,
            before,
        }))
    }

    /// Prints how the machine's run ended. Returns whether the machine was cut.
    pub(super) fn end(&self, status: ExitStatus) -> anyhow::Result<bool> {
        let after = look(self.ram)?;
        match Ending::of(status, &self.before, &after)? {
            Ending::Off => Ok(false),
            Ending::Cut(record) if record.requested == Some(true) => {
                eprintln!(
                    "\npoorwill: asleep in its memory ({}): run the same command again to wake it",
                    took(&record, self.supply)
                );
                Ok(true)
            }
            Ending::Cut(record) => {
                eprintln!(
                    "\npoorwill: the power failed, and the machine was cut ({}): run the same command again to resume it",
                    told(&record, self.supply)
                );
                Ok(true)
            }
        }
    }
}

/// The number of harts of the cut's machine, if this machine has another. Its firmware would not
/// find the cut, and would boot cold over it.
fn misfit(records: &[RecordReport], harts: u32) -> Option<usize> {
    let whole = records.iter().filter(|record| record.is_committed());
    let others = whole.filter_map(|record| record.machine_harts);
    let mut others = others.filter(|other| u32::try_from(*other) != Ok(harts));
    others.next()
}

fn announce(ram: &Path, record: &RecordReport) {
    let (ram, number) = (ram.display(), record.number);
    let reason = record.reason.as_deref().unwrap_or_default();
    match record.state {
        RecordState::Consumed => {}
        RecordState::Whole => eprintln!("poorwill: resuming cut {number} in {ram}"),
        RecordState::Tagged => {
            eprintln!("poorwill: resuming cut {number} in {ram}, if the machine's vault accepts it")
        }
        RecordState::Unfinished | RecordState::Damaged => {
            eprintln!(
                "poorwill: cut {number} in {ram} cannot be resumed, and will be discarded: {reason}"
            );
        }
    }
}

fn told(record: &RecordReport, supply: &PowerSupply) -> String {
    let harts = record.harts.unwrap_or_default();
    format!(
        "{harts} harts, in {} of {}",
        took(record, supply),
        format_duration(supply.hold_up)
    )
}

/// Time of Stop on the modelled machine.
fn took(record: &RecordReport, supply: &PowerSupply) -> FormattedDuration {
    let ticks = record.stop_ticks.unwrap_or_default();
    let took = supply.clock.time_of_ticks(ticks).as_micros();
    format_duration(Duration::from_micros(
        u64::try_from(took).unwrap_or(u64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: RecordState, harts: usize) -> RecordReport {
        RecordReport {
            offset: 0,
            number: 1,
            state,
            reason: None,
            requested: Some(false),
            harts: Some(1),
            machine_harts: Some(harts),
            bytes: Some(1),
            stop_ticks: Some(2641),
            after_ticks: Some(1000),
        }
    }

    #[test]
    fn a_cut_of_other_harts_is_kept_from_being_lost() {
        let records = [
            record(RecordState::Consumed, 8),
            record(RecordState::Whole, 2),
        ];
        assert_eq!(misfit(&records, 2), None);
        assert_eq!(misfit(&records, 4), Some(2));
        assert_eq!(misfit(&records[..1], 4), None);
        assert_eq!(misfit(&[record(RecordState::Tagged, 2)], 4), Some(2));
    }

    #[test]
    fn a_cut_is_told_in_the_machines_time() {
        let supply = PowerSupply {
            hold_up: Duration::from_millis(16),
            clock: Clock::default(),
            plugin: PathBuf::new(),
            loader: PathBuf::new(),
        };
        let told = told(&record(RecordState::Whole, 2), &supply);
        assert_eq!(told, "1 harts, in 1ms of 16ms");
    }
}
