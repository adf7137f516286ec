//! `poorwill area`: what is in the sleep areas of a disk, and how its machine
//! sleeps.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use poorwill_store::{Delay, DelayError, LONGEST_DELAY_MS, SleepMode};
use uom::si::time::second;

use crate::area::{AreaReport, Change, ConfigurationReport, configure, inspect};
use crate::disk::holders;
use crate::energy::account::staged;
use crate::energy::builtin::{self, BUILT_IN};
use crate::energy::profile::Profile;
use crate::flash::Flash;
use crate::progress;

/// List the sleep areas and images of a disk, and verify them.
///
/// Nothing is written, but by `set`. The disk may be a raw file or a block
/// device.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  poorwill area machine.disk
  poorwill area --verify machine.disk
  poorwill area --verify machine.disk --flash machine.flash
  poorwill area --json /dev/nvme0n1
  poorwill area set machine.disk --mode staged --delay 30min

Exit status: 0 all is well, 1 an image, a record or the configuration is damaged,
an image cannot be verified, or the disk cannot be read, 2 wrong usage."
)]
pub struct Area {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Set(Set),
}

#[derive(Args, Clone, Debug)]
struct Shown {
    /// The disk
    #[arg(value_name = "DISK", required = true)]
    disk: Option<PathBuf>,
    /// The flash of the disk's machine: to verify sealed images, and to tell
    /// whether that machine wakes them
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Check every checksum or tag of the images that may wake
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Choose how the disk's machine sleeps.
///
/// It counts from the machine's next sleep on; an image that waits to be woken
/// stays as it is. The running machine is told from within: `poorwill-guest`.
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
struct Set {
    /// The disk
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    #[command(flatten)]
    change: ChangeArguments,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
struct ChangeArguments {
    /// How the machine sleeps
    #[arg(long, value_parser = sleep_modes())]
    mode: Option<SleepMode>,
    /// How long `staged` retains: 1 ms to 30 days, such as 90s or 30min
    #[arg(long, value_name = "DURATION", value_parser = stage_delay)]
    delay: Option<u64>,
    /// How long `auto` retains: from which length on a sleep costs less energy
    /// persisted; `none` for the stage delay
    #[arg(long, value_name = "DURATION", value_parser = break_even)]
    break_even: Option<u64>,
    /// The same, of an energy profile: a built-in one (`poorwill energy --list`),
    /// or a file of yours
    #[arg(long, value_name = "PROFILE", value_parser = break_even_of, conflicts_with = "break_even")]
    profile: Option<u64>,
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

/// The break-even of a profile: what is no name of a built-in one is a file's.
fn break_even_of(name: &str) -> anyhow::Result<u64> {
    let profile = match BUILT_IN.iter().any(|(known, _)| *known == name) {
        true => builtin::profile(name)?,
        false => Profile::read(name.as_ref())?,
    };
    let staged = staged(&profile).with_context(|| {
        format!("in {name} no sleep is so long that persisting costs less than retaining")
    })?;
    let delay = Duration::try_from_secs_f64(staged.delay.get::<second>())?;
    bounded(delay, Delay::BreakEven)
}

/// A duration as people write it, that `delay` can be.
fn milliseconds(text: &str, delay: Delay) -> anyhow::Result<u64> {
    bounded(humantime::parse_duration(text)?, delay)
}

fn bounded(duration: Duration, delay: Delay) -> anyhow::Result<u64> {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if !(1..=LONGEST_DELAY_MS).contains(&ms) {
        bail!(DelayError { delay, ms });
    }
    Ok(ms)
}

impl Area {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What keeps the disk from being looked at, or changed.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Some(Action::Set(set)) => set.execute(),
            None => self.shown.execute(),
        }
    }
}

impl Shown {
    /// The disk; clap has seen to it that there is one.
    fn disk(&self) -> &Path {
        self.disk.as_deref().unwrap_or(Path::new(""))
    }

    fn execute(&self) -> anyhow::Result<ExitCode> {
        let mut flash = self.flash.as_deref().map(Flash::read).transpose()?;
        let bar = self.verify.then(|| progress::bytes("verifying", 0));
        let areas = inspect(self.disk(), bar.as_ref(), flash.as_mut())?;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&areas)?);
        } else {
            areas.iter().for_each(|area| print!("{area}"));
            if let Some(holder) = holders(self.disk()).first() {
                let (name, pid) = (&holder.name, holder.pid);
                println!("note: {name} (process {pid}) has the disk open: this may change");
            }
        }
        Ok(if areas.iter().all(AreaReport::is_well) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl Set {
    fn execute(&self) -> anyhow::Result<ExitCode> {
        let change = Change {
            mode: self.change.mode,
            stage_delay_ms: self.change.delay,
            break_even_ms: self.change.break_even.or(self.change.profile),
        };
        let configured = configure(&self.disk, &change)?;
        if let Some(error) = configured.replaced {
            println!("note: {error}; it has been set anew");
        }
        println!("partition {}", configured.partition);
        print!("{}", ConfigurationReport::of(Ok(configured.configuration)));
        Ok(ExitCode::SUCCESS)
    }
}
