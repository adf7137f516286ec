//! `poorwill key`: a machine's sealing key.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use poorwill_machine::disk::holders;
use poorwill_machine::flash::Flash;

/// Show, make, replace or erase the key that a machine seals its images with.
///
/// The key lives in the machine's flash, a file of 32 MiB (`poorwill run
/// --flash FILE`), and is never shown: only its id, by which images name it.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  poorwill key machine.flash           as `poorwill key show`
  poorwill key create machine.flash
  poorwill key erase machine.flash     every image at once

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Tell what is in a flash; nothing is written
    Show(Shown),
    /// Make a flash file with a new key
    Create(Shown),
    /// Replace the key: every image sealed with the old one is lost
    Rotate(Change),
    /// Erase the key: every image sealed with it is lost
    Erase(Change),
}

#[derive(Args, Clone, Debug)]
struct Shown {
    /// The flash file
    #[arg(value_name = "FLASH", required = true)]
    flash: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
struct Change {
    #[command(flatten)]
    shown: Shown,
    /// Even if the machine sleeps: its image is lost then
    #[arg(long)]
    yes: bool,
}

impl Shown {
    /// The file; clap has seen to it that there is one.
    fn flash(&self) -> &Path {
        self.flash.as_deref().unwrap_or(Path::new(""))
    }

    fn print(&self) -> anyhow::Result<()> {
        let report = Flash::read(self.flash())?.report();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
            return Ok(());
        }
        print!("{report}");
        if let Some(holder) = holders(self.flash()).first() {
            let (name, pid) = (&holder.name, holder.pid);
            println!("note: {name} (process {pid}) has the flash open: this may change");
        }
        Ok(())
    }
}

impl Key {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What keeps the flash from being looked at, made or changed.
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action.unwrap_or(Action::Show(self.shown)) {
            Action::Show(shown) => shown.print()?,
            Action::Create(shown) => {
                Flash::create(shown.flash())?;
                tell(&shown, "made, with a new key");
                shown.print()?;
            }
            Action::Rotate(Change { shown, yes }) => {
                Flash::rotate(shown.flash(), yes)?;
                tell(&shown, "a new key: images sealed with another are lost");
                shown.print()?;
            }
            Action::Erase(Change { shown, yes }) => {
                Flash::erase(shown.flash(), yes)?;
                tell(
                    &shown,
                    "the key is erased: every image sealed with it is lost",
                );
                shown.print()?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// For people; programs have the exit status.
fn tell(shown: &Shown, what: &str) {
    if !shown.json {
        println!("{}: {what}", shown.flash().display());
    }
}
