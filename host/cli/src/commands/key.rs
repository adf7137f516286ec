//! `poorwill key`: shows and changes a machine's sealing key.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use poorwill_machine::disk::holders;
use poorwill_machine::flash::Flash;

/// Show, create, replace or erase the key that seals a machine's images.
///
/// The key is in the machine's flash, a file of 32 MiB (`poorwill run --flash FILE`). It is never
/// shown. Images contain its ID.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  poorwill key machine.flash           same as `poorwill key show`
  poorwill key create machine.flash
  poorwill key erase machine.flash     makes all images unreadable

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
    /// Show a flash's key ID and state; nothing is written
    Show(Shown),
    /// Create a flash file with a new key
    Create(Shown),
    /// Replace the key: all images sealed with the old one are lost
    Rotate(Change),
    /// Erase the key: all images sealed with it are lost
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
    /// Confirm, even if the machine sleeps: its image is lost
    #[arg(long)]
    yes: bool,
}

impl Shown {
    /// The flash. clap has checked that it is given if there is no subcommand.
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
            println!("note: {name} (process {pid}) has the flash open: the result may be outdated");
        }
        Ok(())
    }
}

impl Key {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action.unwrap_or(Action::Show(self.shown)) {
            Action::Show(shown) => shown.print()?,
            Action::Create(shown) => {
                Flash::create(shown.flash())?;
                tell(&shown, "created, with a new key");
                shown.print()?;
            }
            Action::Rotate(Change { shown, yes }) => {
                Flash::rotate(shown.flash(), yes)?;
                tell(&shown, "a new key: images sealed with the old one are lost");
                shown.print()?;
            }
            Action::Erase(Change { shown, yes }) => {
                Flash::erase(shown.flash(), yes)?;
                tell(
                    &shown,
                    "the key is erased: all images sealed with it are lost",
                );
                shown.print()?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a line for users. Programs use the exit status.
fn tell(shown: &Shown, what: &str) {
    if !shown.json {
        println!("{}: {what}", shown.flash().display());
    }
}
