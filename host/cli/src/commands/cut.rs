//! `poorwill cut`: shows or discards the cut in a memory file, and plans machines.

mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use humantime::format_duration;
use poorwill_machine::Clock;
use poorwill_machine::cut::{RecordReport, RecordState, discard, look};
use serde_json::{Value, json};

use plan::PlanCommand;

/// Show or discard the record of a cut in the memory file of a machine that is off, or plan a machine.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill cut show machine.ram
  poorwill cut discard machine.ram     the next power-on is a cold boot
  poorwill cut plan --cores 64 --cache 40M --psu server

Exit status: 0 done, 1 a record is damaged, a machine is on, the file cannot be used, or the
planned machine is not armed, 2 wrong usage.")]
pub(crate) struct Cut {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Show the cut's state at the next power-on; nothing is written
    Show(Shown),
    /// Discard the cut: the next power-on is a cold boot
    Discard(Shown),
    /// Compute how long Stop takes on a machine, and whether the power lasts that long
    Plan(PlanCommand),
}

#[derive(Args, Clone, Debug)]
struct Shown {
    /// The memory file
    #[arg(value_name = "FILE")]
    ram: PathBuf,
    /// Clock of the modelled machine in GHz, to compute the time of Stop
    #[arg(long, value_name = "GHZ", default_value = "0.4")]
    clock: Clock,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Cut {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::Show(shown) => shown.print(),
            Action::Plan(plan) => plan.execute(),
            Action::Discard(shown) => {
                let given_up = discard(&shown.ram)?;
                if !shown.json {
                    println!("{}", discarded(&shown.ram, &given_up));
                    return Ok(ExitCode::SUCCESS);
                }
                shown.print()
            }
        }
    }
}

impl Shown {
    fn print(&self) -> anyhow::Result<ExitCode> {
        let records = look(&self.ram)?;
        if self.json {
            let values = records.iter().map(|record| self.value(record));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            println!("{}", serde_json::to_string_pretty(&values)?);
        } else if records.is_empty() {
            println!("{}: no cut", self.ram.display());
        }
        if !self.json {
            (records.iter()).for_each(|record| print!("{}", self.text(record)));
        }
        let is_damaged = |record: &RecordReport| record.state == RecordState::Damaged;
        Ok(match records.iter().any(is_damaged) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }

    /// Time of Stop on the modelled machine.
    fn stop(&self, record: &RecordReport) -> Option<Duration> {
        let took = self.clock.time_of_ticks(record.stop_ticks?);
        Some(Duration::from_micros(u64::try_from(took.as_micros()).ok()?))
    }

    fn value(&self, record: &RecordReport) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(record)?;
        let took = self.stop(record);
        value["stop_us"] = json!(took.and_then(|took| u64::try_from(took.as_micros()).ok()));
        Ok(value)
    }

    fn text(&self, record: &RecordReport) -> String {
        let (ram, number) = (self.ram.display(), record.number);
        let mut text = format!("{ram}: cut {number}, {}\n", state(record));
        let mut line = |name: &str, value: String| text += &format!("    {name:8} {value}\n");
        line("place", format!("{:#x}", record.offset));
        if let Some(is_requested) = record.requested {
            let cause = match is_requested {
                true => "the OS asked for a sleep",
                false => "the power failed",
            };
            line("cause", cause.to_owned());
        }
        if let (Some(harts), Some(all)) = (record.harts, record.machine_harts) {
            line("harts", format!("{harts} of {all} were running"));
        }
        if let Some(bytes) = record.bytes {
            line("record", format!("{bytes} bytes"));
        }
        if let (Some(took), Some(ticks)) = (self.stop(record), record.stop_ticks) {
            line("Stop", format!("{} ({ticks} ticks)", format_duration(took)));
        }
        text
    }
}

/// The state of a cut as text for users.
fn state(record: &RecordReport) -> String {
    let reason = record.reason.as_deref().unwrap_or_default();
    match record.state {
        RecordState::Whole => "whole: the next power-on resumes it".to_owned(),
        RecordState::Tagged => "committed: the next power-on resumes it, if the machine's vault finds it authentic and the latest"
            .to_owned(),
        RecordState::Unfinished => {
            format!("not finished: {reason}; the next power-on is a cold boot")
        }
        RecordState::Damaged => format!("damaged: {reason}; the next power-on is a cold boot"),
        RecordState::Consumed => "consumed: it was resumed or discarded".to_owned(),
    }
}

fn discarded(ram: &Path, given_up: &[RecordReport]) -> String {
    let ram = ram.display();
    if given_up.is_empty() {
        return format!("{ram}: there is no cut to discard");
    }
    let numbers: Vec<_> = given_up
        .iter()
        .map(|record| record.number.to_string())
        .collect();
    format!("{ram}: cut {} is discarded", numbers.join(", "))
}
