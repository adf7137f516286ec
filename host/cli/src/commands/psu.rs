//! `poorwill psu`: the power supply of a running machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use poorwill_machine::psu::{Power, set};

/// Let the power of a running machine fail, or be good again.
///
/// The machine is one of `poorwill run --cut`, and is named by its memory file. Once the
/// power fails it lasts for the machine's hold-up; then it is gone.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill psu fail machine.ram
  poorwill psu good machine.ram    in time, and the hold-up does not run out

Exit status: 0 done, 1 the machine is off, or refuses, 2 wrong usage.")]
pub(crate) struct Psu {
    /// What the power supply says
    #[arg(value_enum)]
    power: Power,
    /// The memory file of the machine
    #[arg(value_name = "FILE")]
    ram: PathBuf,
}

impl Psu {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// What keeps the machine from being told.
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        set(&self.ram, self.power)?;
        let ram = self.ram.display();
        match self.power {
            Power::Fail => println!("{ram}: the power fails"),
            Power::Good => println!("{ram}: the power is good"),
        }
        Ok(ExitCode::SUCCESS)
    }
}
