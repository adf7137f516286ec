use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use poorwill_bench::energy::account::staged;
use poorwill_bench::energy::builtin::{self, BUILT_IN};
use poorwill_bench::energy::profile::Profile;
use poorwill_machine::area::{Change, ConfigurationReport, configure};
use poorwill_store::{Delay, DelayError, Name, SleepMode};
use uom::si::time::second;

/// Choose how the disk's machine sleeps.
///
/// The change applies from the next sleep on. An image that already waits on the disk stays as it
/// is. In the running machine use `poorwill-guest` instead.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Sleep modes:
  persist   save memory to the disk and power off
  retain    keep memory powered
  staged    retain, and persist after the stage delay without waking the OS
  auto      as staged, but at the machine's break-even (or else the stage delay)

Examples:
  poorwill area set machine.disk --mode persist
  poorwill area set machine.disk --mode staged --delay 30min
  poorwill area set machine.disk --mode auto --break-even 55min
  poorwill area set machine.disk --mode auto --profile mine.toml

Exit status: 0 done, 1 failed, 2 wrong usage.")]
pub(super) struct Set {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    #[command(flatten)]
    change: ChangeArguments,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
struct ChangeArguments {
    /// The sleep mode
    #[arg(long, value_parser = sleep_modes())]
    mode: Option<SleepMode>,
    /// Time that `staged` retains: 1 ms to 30 days, such as 90s or 30min
    #[arg(long, value_name = "DURATION", value_parser = stage_delay)]
    delay: Option<u64>,
    /// Time that `auto` retains: longer sleeps cost less energy if they are persisted; `none`: the
    /// stage delay
    #[arg(long, value_name = "DURATION", value_parser = break_even)]
    break_even: Option<u64>,
    /// Take the break-even from an energy profile: a built-in one (`poorwill energy --list`), or a
    /// file
    #[arg(long, value_name = "PROFILE", value_parser = break_even_of, conflicts_with = "break_even")]
    profile: Option<u64>,
    /// Keep the next sleep's image as the machine's snapshot, under this name
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    next_snapshot: Option<Name>,
    /// Accept partitions beside the sleep area that a wake cannot check for changes (LVM, LUKS,
    /// FAT, swap and others)
    #[arg(long, requires = "next_snapshot")]
    unguarded: bool,
    /// Failed wakes in a row after which the snapshot wakes no more; 0: no limit
    #[arg(long, value_name = "NUMBER")]
    snapshot_tries: Option<u32>,
    /// Time after a snapshot's wake in which a reset counts as a failure, such as 60s
    #[arg(long, value_name = "DURATION", value_parser = trial)]
    snapshot_trial: Option<u32>,
    /// Time that each power-on waits for a key that cancels the snapshot's wake: up to 10s; `none`
    /// for no wait
    #[arg(long, value_name = "DURATION", value_parser = key_wait)]
    snapshot_key: Option<u32>,
}

fn sleep_modes() -> impl TypedValueParser<Value = SleepMode> {
    PossibleValuesParser::new(SleepMode::ALL.map(SleepMode::name))
        .try_map(|name| name.parse::<SleepMode>())
}

fn stage_delay(text: &str) -> anyhow::Result<u64> {
    milliseconds(text, Delay::Stage)
}

fn break_even(text: &str) -> anyhow::Result<u64> {
    match text {
        "none" => Ok(0),
        _ => milliseconds(text, Delay::BreakEven),
    }
}

/// The break-even of a profile, which is a built-in one or a file.
fn break_even_of(name: &str) -> anyhow::Result<u64> {
    let profile = match BUILT_IN.iter().any(|(known, _)| *known == name) {
        true => builtin::profile(name)?,
        false => Profile::read(name.as_ref())?,
    };
    let staged = staged(&profile).with_context(|| {
        format!("{name} has no break-even: retaining always costs less than persisting")
    })?;
    let delay = Duration::try_from_secs_f64(staged.delay.get::<second>())?;
    bounded(delay, Delay::BreakEven)
}

fn trial(text: &str) -> anyhow::Result<u32> {
    let duration = humantime::parse_duration(text)?;
    u32::try_from(duration.as_millis()).context("a trial lasts 49 days at most")
}

fn key_wait(text: &str) -> anyhow::Result<u32> {
    match text {
        "none" => Ok(0),
        _ => Ok(u32::try_from(milliseconds(text, Delay::Key)?)?),
    }
}

/// Parses a duration, and checks it against the limits of `delay`.
fn milliseconds(text: &str, delay: Delay) -> anyhow::Result<u64> {
    bounded(humantime::parse_duration(text)?, delay)
}

fn bounded(duration: Duration, delay: Delay) -> anyhow::Result<u64> {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 || !delay.bounds_ms().contains(&ms) {
        bail!(DelayError { delay, ms });
    }
    Ok(ms)
}

impl Set {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let change = Change {
            mode: self.change.mode,
            stage_delay_ms: self.change.delay,
            break_even_ms: self.change.break_even.or(self.change.profile),
            next_snapshot: self.change.next_snapshot,
            accepts_unguarded: self.change.unguarded,
            snapshot_tries: self.change.snapshot_tries,
            snapshot_trial_ms: self.change.snapshot_trial,
            snapshot_key_ms: self.change.snapshot_key,
        };
        let configured = configure(&self.disk, &change)?;
        if let Some(error) = configured.replaced {
            println!("note: {error}; a new configuration was written");
        }
        for unguarded in configured.unguarded {
            println!("note: {unguarded}");
        }
        println!("partition {}", configured.partition);
        print!("{}", ConfigurationReport::of(Ok(configured.configuration)));
        Ok(ExitCode::SUCCESS)
    }
}
